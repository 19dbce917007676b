"""facthold memory, facthold capacity: one memory, and how much one holds."""

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from facthold._util.errors import check_fits
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, count, print_json, writable
from facthold.cli.common import RayOption, StoreOption, WorkersOption, compute_cells, find_place, open_store
from facthold.cli.messages import working
from facthold.cli.searches import say_search
from facthold.measure import bits
from facthold.measure.recall import accuracy, smallest_margins
from facthold.models.saving import save_model
from facthold.recipes.make import make_memory
from facthold.recipes.methods import method as find_method
from facthold.studies.memories.capacity import SEEDS, Capacity, nested_problem
from facthold.theory import bounds

MethodOption = Annotated[str, typer.Option("--method", help="A method from `facthold list`.")]
DOption = Annotated[int, typer.Option("-d", help="Embedding dimension.")]
MOption = Annotated[int, typer.Option("-m", help="Width of the MLP, or rank; 0 for a full linear memory.")]
MapOption = Annotated[str, typer.Option("--map", help="identity, injective, mod, floor or uniform.")]
OutputsOption = Annotated[int | None, typer.Option("--outputs", help="Number of outputs M (default: N).")]
EmbeddingsOption = Annotated[str, typer.Option("--embeddings", help="sphere, gaussian, signs or orthogonal.")]


@app.command()
def memory(
    N: Annotated[int, typer.Option("-N", help="Number of associations.")] = 256,
    d: DOption = 32,
    m: MOption = 0,
    method: MethodOption = "outer-product",
    map: MapOption = "identity",
    outputs: OutputsOption = None,
    embeddings: EmbeddingsOption = "sphere",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the embeddings and of the method.")] = 0,
    save: Annotated[Path | None, typer.Option("--save", help="Write it as safetensors, with its embeddings.")] = None,
    json: JsonOption = False,
) -> None:
    """Make one memory and say what it recalls. Solvers work in float64; training and recall in float32."""
    way = find_method(method)
    way.check(d, m)
    check_fits(N=N, d=d, M=outputs or N, scores=way.holds_scores)
    problem = nested_problem(N, seed, d, outputs, embeddings=embeddings, map=map)
    start = time.perf_counter()
    if save is not None:
        writable(save.parent)
    with working(f"making a memory by {method}"):
        made = make_memory(way, problem, m, seed)
    seconds = time.perf_counter() - start
    margins = np.asarray(smallest_margins(made, problem))
    needed = (
        bounds.bits_injective(N, problem.M) if map in ("identity", "injective") else bounds.bits_uniform(N, problem.M)
    )
    facts = {
        "method": method, "N": N, "d": d, "m": m, "M": problem.M, "map": map, "embeddings": embeddings, "seed": seed,
        "recall": accuracy(made, problem), "smallest_margin": float(margins.min()),
        "median_margin": float(np.median(margins)),
        "n_params": made.n_params, "params_per_fact": made.n_params / N, "bits": bits.parameters_bits(made),
        "bits_needed": needed, "seconds": seconds,
    }  # fmt: skip
    if save is not None:
        facts["file"] = str(save_model(save, made, problem))
    if json:
        print_json(facts)
        return
    typer.echo(f"{method}: {facts['recall']:.2%} of {N} associations recalled, made in {seconds:.2f} s")
    typer.echo(f"smallest margin {facts['smallest_margin']:.4g}, median {facts['median_margin']:.4g}")
    typer.echo(
        f"{made.n_params} parameters, {facts['params_per_fact']:.4g} a fact; {facts['bits']:.0f} bits in float32, "
        f"where {needed:.0f} would tell all such maps apart"
    )
    if save is not None:
        typer.echo(f"model: {save}")


@app.command()
def capacity(
    d: DOption = 32,
    m: MOption = 0,
    method: MethodOption = "outer-product",
    map: MapOption = "identity",
    outputs: OutputsOption = None,
    embeddings: EmbeddingsOption = "sphere",
    goal: Annotated[float, typer.Option("--goal", help="Share that must be recalled.")] = 0.99,
    tolerance: Annotated[float, typer.Option("--tolerance", help="Relative width at which the search ends.")] = 0.01,
    seeds: Annotated[int, typer.Option("--seeds", help="Number of seeds.")] = len(SEEDS),
    workers: WorkersOption = None,
    ray: RayOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Search for the largest N that a method still recalls at this size. Training and recall are float32."""
    if seeds < 1:
        raise ValueError(f"--seeds {seeds} must be at least 1")
    place = find_place(workers, ray)
    cell = Capacity(
        method=method, d=d, m=m, map=map, M=outputs, embeddings=embeddings, goal=goal, tolerance=tolerance,
        seeds=tuple(range(seeds)),
    )  # fmt: skip
    with open_store(store) as results:
        (row,) = compute_cells("capacity", [cell], results, place)
    if json:
        print_json(row.result)
        return
    found, said = row.result, None
    if found["N"] is not None:
        spread = f"{found['N_min']} to {found['N_max']} over {count(len(cell.seeds), 'seed')}"
        said = f"N = {found['N']:.5g} ({spread}), {found['params_per_fact']:.4g} parameters a fact"
    say_search(found, "N", said)
