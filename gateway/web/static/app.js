// The live part of a page: the server sends it anew when it changed, and what differs is put in its place.
"use strict";
(() => {
  const view = document.querySelector("[data-live]");
  const state = document.getElementById("state");

  const keyOf = (node) => (node.nodeType === 1 ? node.getAttribute("data-key") : null);

  const attributes = (old, fresh) => {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(old.tagName === "DETAILS" && name === "open")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };

  // Nodes stay where they are if they can, so that focus, selection and open details do.
  const morph = (old, fresh) => {
    const keyed = new Map();
    for (const node of old.children) if (keyOf(node)) keyed.set(keyOf(node), node);
    let at = old.firstChild;
    for (const want of [...fresh.childNodes]) {
      const key = keyOf(want);
      let have = key ? keyed.get(key) : null;
      if (!have && !key && at && !keyOf(at) && at.nodeName === want.nodeName) have = at;
      if (!have) {
        old.insertBefore(want, at);
        continue;
      }
      if (have === at) at = at.nextSibling;
      else old.insertBefore(have, at);
      if (have.nodeType === 1) {
        attributes(have, want);
        morph(have, want);
      } else if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  const put = (element, html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    morph(element, template.content);
  };

  let source = null;
  const close = () => {
    if (source) source.close();
    source = null;
  };
  const open = () => {
    if (source || !view) return;
    source = new EventSource(view.dataset.live);
    source.addEventListener("view", (event) => {
      view.classList.remove("gone");
      put(view, event.data);
    });
    source.addEventListener("state", (event) => put(state, event.data));
    source.addEventListener("bye", () => location.reload());
    source.onerror = () => {
      view.classList.add("gone");
      if (state) {
        put(state, '<span class="chip bad"><i aria-hidden="true"></i>No connection to the gateway</span>');
      }
      if (source && source.readyState === EventSource.CLOSED) {
        close();
        setTimeout(open, 3000);
      }
    };
  };

  if (view) {
    open();
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("pageshow", open);
  }

  const here = document.querySelector("nav [aria-current]");
  if (here) here.scrollIntoView({ block: "nearest", inline: "center" });

  // Only what was changed is sent; a form that was not touched says so itself.
  for (const form of document.querySelectorAll("form[data-changes]")) {
    const fields = [...form.querySelectorAll("[data-was]")];
    const told = form.querySelector("[data-told]");
    const count = () => {
      const changed = fields.filter((field) => field.value !== field.dataset.was).length;
      told.textContent = changed === 0 ? "Nothing changed" : changed === 1 ? "1 change" : `${changed} changes`;
    };
    form.addEventListener("input", count);
    count();
  }
})();
