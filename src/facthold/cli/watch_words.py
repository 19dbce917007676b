"""What facthold watch says of the stages of a run."""

from typing import Any

import numpy as np

from facthold.cli.basics import count
from facthold.dynamics.stages import CONVERGED, Rest, Stages
from facthold.dynamics.watching import Reached, Watching
from facthold.facts.formats import shorten

SAID = 2
"""Questions whose answers stand in a line about a stage."""
STAGES = {
    "start": "start, every answer is as likely as any other",
    "left": "the loss leaves its start",
    "relation": "hallucination, it knows what is asked and not of whom",
    "subject": "it knows of whom is asked and not what",
    "beyond": "it begins to tell {others} apart",
    "learnt": "the facts are learnt",
}
OTHERS = {"relation": "subjects", "subject": "relations"}
GUESS = {"relation": "the mean entropy of p*(a | r): hallucination", "subject": "the mean entropy of p*(a | s)"}


def stage_words(watching: Watching, stage: str) -> str:
    """A stage in words; which tokens are told apart last depends on which came first."""
    first = next((reached for reached, _ in watching.reached if reached in OTHERS), "relation")
    return STAGES[stage].format(others=OTHERS[first])


def stage_line(watching: Watching, reached: Reached) -> str:
    """A stage that was just reached, with what the model answers there."""
    stage, look = reached
    asked = zip(watching.questions[:SAID], watching.said(look), strict=False)
    answers = "; ".join(f"{shorten(question.text)}? {shorten(said)}" for question, said in asked)
    loss = float(watching.looks[look]["loss"])
    return f"step {watching.steps[look]}, loss {loss:.3g}: {stage_words(watching, stage)} ({answers})"


def closing(watching: Watching, seconds: float) -> dict[str, Any]:
    """How a run ended, as JSON values and in words."""
    last, table, stages = watching.looks[-1], watching.table, watching.stages
    n_right = round(float(last["accuracy"]) * len(table))
    found = {
        "n_facts": len(table), "steps": watching.steps[-1], "seconds": seconds, "loss": float(last["loss"]),
        "recalled": n_right, "levels": vars(watching.levels), "stages": stages.values,
        "answers": {q.text: said for q, said in zip(watching.questions, watching.said(-1), strict=True)},
    }  # fmt: skip
    after = f"after {count(watching.steps[-1], 'step')} in {seconds:.0f} s"
    says = [f"{n_right} of {count(len(table), 'fact')} recalled {after}", _story(watching, stages)]
    if stages.converged is None:
        says.append(f"not converged: {_advice(watching)}")
    return found | {"says": says}


def _story(watching: Watching, stages: Stages) -> str:
    levels = watching.levels
    story = f"the loss began at {levels.start:.3g} = ln {watching.table.A}"
    if stages.left is None:
        return f"{story} and has not left it"
    parts = [f"left it at step {_look(watching, stages.left)}", _rest(watching, stages)]
    if stages.converged is not None:
        parts.append(f"fell below {CONVERGED:g} at step {_look(watching, stages.converged)}")
    else:
        parts.append(f"is now at {float(watching.looks[-1]['loss']):.3g}")
    return f"{story}, {', '.join(parts[:-1])}, and {parts[-1]}"


def _rest(watching: Watching, stages: Stages) -> str:
    kind = stages.resting or "relation"
    rest: Rest = getattr(stages, kind)
    level = f"{rest.level:.3g} ({GUESS[kind]})"
    if rest.begins is None:
        return f"has not come down to {level}"
    begins = _look(watching, rest.begins)
    if rest.ends is None:
        return f"came to {level} at step {begins} and has not left it"
    until = f"from step {begins} to step {_look(watching, rest.ends)}"
    return f"rested at {level} {until}" if rest.seen else f"passed {level} {until}, too quickly for a rest"


def _advice(watching: Watching) -> str:
    if not watching.table.assumption_1:
        return (
            "some answers serve two relations, and linear attention may not hold all such facts; "
            "take other --relations, or more --steps"
        )
    return "take more --steps"


def _look(watching: Watching, t: float) -> int:
    """The look at which what happened at t was seen."""
    return int(watching.steps[int(np.searchsorted(watching.steps, t))])
