// Browsers start no worker from a page that was opened from a disk. There, the search runs in a hidden frame instead.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.later(() => {
        const passed = new MessageEvent("message", { data });
        this.dispatchEvent(passed);
        this.onmessage?.(passed);
      });
      const script = inside.document.createElement("script");
      script.src = url;
      this.ready = new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = reject;
      });
      inside.document.body.append(script);
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      const copy = structuredClone(data);
      this.ready.then(() => this.later(() => inside.dispatchEvent(new inside.MessageEvent("message", { data: copy }))));
    }

    // A message arrives after what is being done, as from a real worker.
    later(todo) {
      setTimeout(todo, 0);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
