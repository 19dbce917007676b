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
      window.addEventListener("message", (event) => {
        if (event.source !== inside) return;
        const passed = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(passed);
        this.onmessage?.(passed);
      });
      inside.postMessage = (data) => window.dispatchEvent(new MessageEvent("message", { data, source: inside }));
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
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
