// The router, the search field, keys and themes.

const tabView = (tab) => {
  const pictures = tab.id === "bench" ? data.pictures.map(({ title, image }) => el("figure", {}, el("img", { src: image, alt: title, width: "1000", height: "640", loading: "lazy" }), el("figcaption", {}, title))) : [];
  return [el("h1", {}, tab.title), tab.trials ? gpuNotice() : null, ...pictures, ...tab.tables.map(tableView)];
};

// Any table of text, with a filter of its own.
const tableView = (table) => {
  const rows = table.rows.map((row) => ({ row, text: row.join("\n").toLowerCase() }));
  const place = el("div");
  const draw = (query) => {
    const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
    const some = rows.filter(({ text }) => terms.every((term) => text.includes(term)));
    const body = el("tbody");
    const more = growing(body, some, ({ row }) => el("tr", {}, row.map((text, n) => (n ? el("td", {}, text) : el("th", { scope: "row" }, text)))), "row");
    const head = el("tr", {}, table.columns.map((name) => el("th", { scope: "col" }, name)));
    place.replaceChildren(el("p", { class: "count" }, `${count(some.length, "row")}`), scrolled(table.title, el("table", {}, el("thead", {}, head), body)), more);
  };
  const input = el("input", { type: "search", "aria-label": `Filter: ${table.title}`, placeholder: "Filter rows", on: { input: () => draw(input.value) } });
  draw("");
  return el("section", {}, el("h2", {}, table.title), table.note ? el("p", {}, table.note) : null, input, place);
};

const aboutView = () => {
  const body = data.toolkits.map(([version, isa]) => el("tr", {}, el("th", { scope: "row" }, version), el("td", {}, isa)));
  const head = el("tr", {}, el("th", { scope: "col" }, "ptxas"), el("th", { scope: "col" }, "PTX ISA"));
  return [
    el("h1", {}, "Toolkits and GPUs"),
    gpuNotice(),
    scrolled("Toolkits", el("table", {}, el("thead", {}, head), el("tbody", {}, body))),
    el("p", {}, data.disassembler ? `nvdisasm ${data.disassembler} names the opcodes.` : "There was no disassembler: whether code is native is unknown."),
    el("p", {}, "Accepted means that ptxas made code. A toolkit that does not know a target or a PTX version answers unknown, not rejected. Native means that the machine code has the hardware instruction, once; split, several of them; emulated, none."),
    el("p", {}, "Keys: / goes to the search, Escape clears it, Alt+arrow keys go back and forward."),
  ];
};

const views = () => [
  ...(data.forms.length || !data.tabs.length ? [["", "Answer"]] : []),
  ...(data.forms.length ? [["forms", "Forms"], ["claims", "Claims"]] : []),
  ...data.tabs.map((tab) => [tab.id, tab.title]),
  ["about", "Toolkits and GPUs"],
];

// An address that is shown, but not yet in the history: the browser takes longer for that than this page for a list.
let ahead = null;
const settle = () => {
  if (!ahead) return;
  const { hash, push } = ahead;
  ahead = null;
  history[push ? "pushState" : "replaceState"](null, "", hash);
};

const here = () => {
  const [path, query] = (ahead?.hash ?? location.hash).replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  let id = rest.join("/");
  try {
    id = decodeURIComponent(id);
  } catch {
    // An address that somebody cut short.
  }
  return { view, id, ask: Object.fromEntries(new URLSearchParams(query ?? "")) };
};

// Goes to an address; typing does not fill the history.
const go = (hash, push, kept) => {
  // One that is to be an entry of its own becomes one; typing changes it.
  if (push) settle();
  ahead = { hash, push: push || Boolean(ahead?.push) };
  show(false, kept);
  setTimeout(settle, 100);
};

// An address that leads nowhere, such as one from another version of the page.
const unknownView = (name) => [
  el("h1", {}, "No such page"),
  el("p", {}, `This page has no part “${name}”. It has: `, views().flatMap(([view, title]) => [el("a", { href: address(view) }, title), " "])),
];

let shown;
// `kept`: the controls on the page are as the address says.
const show = (arrived, kept) => {
  const { view: named, id, ask } = here();
  // A record without a matrix, such as an audit, opens on what it has.
  const view = named || views()[0][0];
  const main = document.getElementById("main");
  const query = document.getElementById("query");
  if (view === "forms" && document.activeElement !== query) query.value = ask.q ?? "";
  const results = document.getElementById("results");
  const focused = document.activeElement?.name;
  if (view === "forms" && shown === "forms" && results && !arrived && (kept || document.activeElement === query)) {
    list(results, ask);
  } else {
    const tab = data.tabs.find((t) => t.id === view);
    const made = view === "forms" ? formsView(ask) : view === "form" ? formView(id) : view === "claims" ? claimsView(ask) : view === "about" ? aboutView() : tab ? tabView(tab) : view === "" ? answerView() : unknownView(view);
    main.replaceChildren(...made.filter(Boolean));
    // A filter that was just changed keeps the focus.
    const control = !arrived && focused && document.querySelector(`#filters [name="${CSS.escape(focused)}"]`);
    if (control) control.focus();
  }
  shown = view;
  const current = view === "form" ? "forms" : view;
  for (const a of document.querySelectorAll("#tabs a")) a.toggleAttribute("aria-current", a.dataset.view === current);
  for (const a of document.querySelectorAll("#tabs a[aria-current]")) a.setAttribute("aria-current", "page");
  const title = main.querySelector("h1")?.textContent ?? "";
  document.title = `${title} · SM12x capability matrix`;
  if (arrived) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
    if (view !== "forms") say(title);
  }
};

const themes = () => {
  const root = document.documentElement;
  const stored = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  };
  if (stored()) root.dataset.theme = stored();
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  });
};

const keys = (query) => {
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      query.focus();
      query.select();
    }
  });
  query.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && query.value) {
      query.value = "";
      query.dispatchEvent(new Event("input"));
    }
    if (event.key === "ArrowDown") document.querySelector("#results a")?.focus();
  });
};

const begin = async () => {
  themes();
  const query = document.getElementById("query");
  start(await readData());
  document.getElementById("tabs").append(...views().map(([view, title]) => el("a", { href: address(view), "data-view": view }, title)));
  document.getElementById("foot").append(`${data.tool}. The record is embedded in this file; nothing is loaded from a network.`);
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
  keys(query);
  document.getElementById("find").addEventListener("submit", (event) => event.preventDefault());
  query.addEventListener("input", () => {
    const { view, ask } = here();
    const kept = view === "forms" ? ask : {};
    // The first key leaves another view, and the way back leads to it.
    go(address("forms", { ...kept, q: query.value.trim() }), view !== "forms");
  });
  // Before a link is followed or copied.
  addEventListener("click", settle, true);
  addEventListener("pagehide", settle);
  addEventListener("popstate", () => {
    ahead = null;
    show(true);
  });
  addEventListener("hashchange", () => {});
  show(false);
  const idle = self.requestIdleCallback ?? ((work) => setTimeout(work, 200));
  idle(() => data.forms.forEach(hay));
};
begin().catch((error) => {
  document.getElementById("main").textContent = `The data of this page cannot be read: ${error}`;
});
