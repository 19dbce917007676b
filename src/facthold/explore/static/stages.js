// The stages of a loss curve so far: the start, a rest at the loss of a partial guess, convergence
// (`facthold.dynamics.stages`). A curve rests at a level when it stays within 2% of it at least as long as the drop into
// it took.

const BAND = 0.02, UNSTABLE = 0.25, KNOWN = 0.5;
export const CONVERGED = 0.01; // the loss at which facts are learnt

/** When the curve first falls below the level, by a straight line between two looks; null: never. */
export function crossing(times, loss, level) {
  const i = loss.findIndex((y) => y < level);
  if (i < 0) return null;
  if (i === 0 || !Number.isFinite(loss[i - 1])) return times[i];
  return times[i - 1] + ((loss[i - 1] - level) / (loss[i - 1] - loss[i])) * (times[i] - times[i - 1]);
}

export function findStages(times, loss, levels) {
  const last = loss.length - 1, left = crossing(times, loss, levels.start * (1 - BAND)), stages = { left };
  for (const kind of ["relation", "subject"]) {
    const level = levels[kind], begins = crossing(times, loss, level * (1 + BAND));
    const ends = crossing(times, loss, level * (1 - BAND));
    const drop = begins === null || left === null ? null : Math.max(begins - left, 0);
    const until = ends === null && loss[last] <= level * (1 + BAND) ? times[last] : ends;
    const stayed = begins === null || until === null ? null : until - begins;
    const seen = stayed !== null && drop !== null && stayed >= drop && stayed > 0;
    stages[kind] = { level, begins, ends, stayed: stayed ?? 0, seen };
  }
  const resting = ["relation", "subject"].filter((kind) => stages[kind].seen);
  resting.sort((a, b) => stages[b].stayed - stages[a].stayed);
  return { ...stages, converged: crossing(times, loss, CONVERGED), resting: resting[0] ?? null,
    problem: problemOf(times, loss, levels) };
}

function problemOf(times, loss, levels) {
  const bad = loss.findIndex((y) => !Number.isFinite(y));
  if (bad >= 0) return "training diverged: the loss is not a finite number any more; take a shorter step";
  let lowest = Infinity;
  for (const y of loss) {
    lowest = Math.min(lowest, y);
    if (y - lowest > UNSTABLE * Math.max(loss[0], levels.start)) {
      return `training is unstable: the loss rose from ${lowest.toPrecision(3)} to ${y.toPrecision(3)}; take a shorter step`;
    }
  }
  if (levels.relation * (1 + BAND) >= levels.start * (1 - BAND)) {
    return "the stages cannot be told apart: in this table knowing the relation is no better than knowing nothing";
  }
  if (levels.relation * (1 - BAND) <= CONVERGED) {
    return "the stages cannot be told apart: in this table the relation alone gives the answer";
  }
  return null;
}

/** Which stage a model is in, from the curve up to now: 'start', 'left', 'relation' (hallucination), 'subject', 'beyond'
 * (it leaves that rest), 'passes' (it leaves that level too soon for a rest), 'learnt', 'problem'. `first` is the kind of
 * token that is learnt first, as far as one sees. */
export function stageOf(times, looks, levels) {
  const now = looks[looks.length - 1], left = (kind) => now[`${kind}_loss`] / looks[0][`${kind}_loss`];
  const first = left("relation") <= left("subject") ? "relation" : "subject", uneven = levels.marginal < levels.start * (1 - BAND);
  const as = (stage) => ({ stage, first, uneven });
  if (times.length < 2) return as("start");
  const stages = findStages(times, looks.map((look) => look.loss), levels), rest = stages[first];
  if (stages.problem && !/told apart/.test(stages.problem)) return { ...as("problem"), problem: stages.problem };
  if (stages.converged !== null) return as("learnt");
  if (stages.left === null) return as("start");
  if (rest.begins === null) return as("left");
  if (rest.ends === null) return as(left(first) < 1 - KNOWN ? first : "left");
  return as(rest.seen ? "beyond" : "passes");
}

/** The stage in words: what one sees now. */
export function stageWords({ stage, first, uneven, problem }) {
  const others = first === "relation" ? "subjects" : "relations";
  return {
    start: "it knows nothing: every answer is as likely as any other",
    left: `the loss has left its start: it ${uneven ? "learns which answers are common, and " : ""}begins to tell ${first}s apart`,
    relation: "hallucination: it answers every question with some answer of the relation; it knows what is asked and " +
      "not of whom",
    subject: "it answers with something of the subject: it knows of whom is asked and not what",
    beyond: `it begins to tell ${others} apart, and leaves the plateau of guessing by the ${first}`,
    passes: `it tells ${others} apart already: the loss passes the level of guessing by the ${first}, and does not rest there`,
    learnt: "the facts are learnt: it answers from the whole question",
    problem,
  }[stage];
}
