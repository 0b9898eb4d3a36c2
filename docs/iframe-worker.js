// Search runs in a worker, which browsers refuse to pages opened from the disk: there a hidden frame stands in for it.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.body.appendChild(Object.assign(document.createElement("iframe"), { hidden: true }));
      this.inner = this.frame.contentWindow;
      this.inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.onmessage?.(event);
        this.dispatchEvent(event);
      };
      this.ready = new Promise((resolve) => {
        const script = Object.assign(this.inner.document.createElement("script"), { src: url, onload: resolve });
        this.inner.document.body.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
