// Something that runs frame by frame: it stops when it is paused, when its tab is left and when the page is hidden.

const MOST_MS = 12; // of a frame that are spent on computing, so that the page stays quick

/** `frame(seconds, until)` does what is due after so many seconds, ends where the clock passes `until`, and returns
 * whether there is more to come. `changed(running)` hears of every start and stop. */
export function loop(frame, changed = () => {}) {
  let on = false, asked = 0, before = 0;
  const turn = (now) => {
    const seconds = Math.min(0.1, Math.max(0, (now - before) / 1000));
    before = now;
    const more = frame(seconds, performance.now() + MOST_MS);
    if (!on) return; // stopped by what it did itself
    if (more) asked = requestAnimationFrame(turn);
    else self.stop();
  };
  const self = {
    get running() {
      return on;
    },
    start() {
      if (on) return;
      on = true;
      before = performance.now();
      asked = requestAnimationFrame(turn);
      changed(true);
    },
    stop() {
      if (!on) return;
      on = false;
      cancelAnimationFrame(asked);
      changed(false);
    },
  };
  document.addEventListener("visibilitychange", () => document.hidden && self.stop());
  return self;
}

/** Whether this reader wants little to move by itself. */
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
