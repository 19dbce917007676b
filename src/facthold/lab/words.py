"""Formulas of pictures, which are TeX, as the few tags that browsers and plotly read."""

import html
import re

SIGNS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε", "varphi": "φ", "phi": "φ", "lambda": "λ", "sigma": "σ",
    "Delta": "Δ", "Sigma": "Σ", "to": "→", "infty": "∞", "times": "×", "cdot": "·", "sqrt": "√", "sim": "~", "geq": "≥",
    "leq": "≤", "pm": "±", "ell": "ℓ", "mid": "|",
}  # fmt: skip
FUNCTIONS = ("ln", "log", "exp", "max", "min")
_GROUP = r"(?:\{((?:[^{}]|\{[^{}]*\})*)\}|(\\[a-zA-Z]+|[^\s{}\\]))"


def as_html(text: str) -> str:
    """'$N\\ln N = d^2$ (authors)' as 'N ln N = d<sup>2</sup> (authors)', everything else escaped."""
    parts = re.split(r"(?<!\\)\$", text)
    if len(parts) % 2 == 0:  # a dollar that opens nothing
        parts = [text]
    shown = (_formula(part) if i % 2 else _escaped(part.replace(r"\$", "$")) for i, part in enumerate(parts))
    return "".join(shown).replace("\n", "<br>")


def as_text(text: str) -> str:
    """The same without tags, for a label that is read out."""
    return html.unescape(re.sub(r"<[^>]+>", " ", as_html(text)))


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


def _formula(tex: str) -> str:
    found = re.sub(r"\\[,;:!]", " ", tex).replace(r"\ ", " ").replace(r"\|", "‖")
    found = re.sub(r"\\(?:mathrm|text|mathcal|operatorname)\s*" + _GROUP, lambda m: m[1] or m[2] or "", found)
    found = re.sub(r"\\frac\s*" + _GROUP + _GROUP, lambda m: f"{m[1] or m[2]}/{m[3] or m[4]}", found)
    found = re.sub(r"\\sqrt\s*" + _GROUP, lambda m: f"√({m[1]})" if m[1] else f"√{m[2]}", found)
    return _scripts(_escaped(found)).strip()


def _scripts(tex: str) -> str:
    """Indices and powers, from the outside in; then names of signs."""

    def script(match: re.Match[str]) -> str:
        tag = {"^": "sup", "_": "sub"}[match[1]]
        return f"<{tag}>{_scripts(match[2] or match[3])}</{tag}>"

    found = re.sub(r"([_^])" + _GROUP, script, tex)
    for name in FUNCTIONS:
        found = re.sub(rf"\\{name}(?![a-zA-Z])", f" {name} ", found)
    found = re.sub(r"\\([a-zA-Z]+)", lambda m: SIGNS.get(m[1], m[1]), found)
    return re.sub(r" +", " ", found.replace("{", "").replace("}", "")).replace(" <su", "<su")
