// Elements. Text is set as text: nothing from the data becomes markup.

const el = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const say = (text) => {
  document.getElementById("status").textContent = text;
};

// An address of this page: a view and what is asked of it.
const address = (view, ask = {}) => {
  const pairs = Object.entries(ask).filter(([, value]) => value);
  const query = new URLSearchParams(pairs).toString();
  return `#/${view}${query ? `?${query}` : ""}`;
};
const formAddress = (form) => `#/form/${encodeURIComponent(form.id)}`;

// Only addresses of the web become links.
const link = (url, text) => (/^https?:\/\//.test(url ?? "") ? el("a", { href: url, rel: "noreferrer" }, text) : text);

const copied = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A file on disk may have no clipboard; a selection works everywhere.
    const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say("Copied");
};
const copyButton = (label, text) => {
  const button = el("button", { type: "button", class: "copy", title: text }, label);
  button.addEventListener("click", async () => {
    await copied(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1200);
  });
  return button;
};

const cell = (mark, kind, words) => {
  const td = document.createElement("td");
  td.className = `answer ${kind}`;
  td.title = words;
  td.ariaLabel = words;
  td.textContent = mark;
  return td;
};

const scrolled = (label, table) => el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);

// A list of rows that grows as it is read: no browser lays out thousands of rows in time. The first rows answer a key or a
// filter; those below follow with the next frame.
const FIRST = 12;
const STEP = 50;
const growing = (body, rows, draw, noun) => {
  const more = el("p", { class: "more" });
  let shown = 0;
  const add = (number) => {
    body.append(...rows.slice(shown, shown + number).map(draw));
    shown = Math.min(shown + number, rows.length);
    more.replaceChildren();
    if (shown < rows.length) {
      const button = el("button", { type: "button" }, `Show ${Math.min(STEP, rows.length - shown)} more`);
      button.addEventListener("click", () => {
        const at = body.children.length;
        add(STEP);
        body.children[at]?.querySelector("a,button")?.focus();
      });
      more.append(`${shown.toLocaleString("en")} of ${count(rows.length, noun)} shown `, button);
    }
  };
  add(FIRST);
  const observer = new IntersectionObserver((seen) => {
    if (!more.isConnected) observer.disconnect();
    else if (seen.some((entry) => entry.isIntersecting) && shown < rows.length) add(STEP);
  }, { rootMargin: "600px" });
  observer.observe(more);
  return more;
};
