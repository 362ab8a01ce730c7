// The list of forms, with filters; and the list of claims.

const choice = (name, label, options, chosen) =>
  el("label", {}, label, el("select", { name }, options.map(([value, text]) => el("option", { value, selected: value === (chosen ?? "") }, text))));

const formsView = (ask) => {
  const any = [["", "any"]];
  const same = (values) => values.map((value) => [value, value]);
  const families = [...new Set(data.forms.map((form) => form.family))].sort();
  const controls = el(
    "form",
    { class: "filters", id: "filters", "aria-label": "Filters" },
    choice("family", "Family", [...any, ...same(families)], ask.family),
    choice("target", "Target", [["", "any SM12x"], ...same(targets)], ask.target),
    choice("toolkit", "Toolkit", [["", `newest (${toolkits[newest] ?? "none"})`], ...same([...toolkits].reverse())], ask.toolkit),
    choice("answer", "Answer", [...any, ["accepted", "accepted"], ["rejected", "rejected"], ["unknown", "unknown"]], ask.answer),
    choice("code", "Machine code", [...any, ["native", "native"], ["split", "split"], ["emulated", "emulated"]], ask.code),
    choice("group", "Suffixes", [...any, ...same(GROUPS)], ask.group),
    el("label", { class: "check" }, el("input", { type: "checkbox", name: "differs", value: "1", checked: Boolean(ask.differs) }), "SM12x targets differ"),
    el("button", { type: "reset" }, "Clear"),
  );
  const results = el("div", { id: "results" });
  controls.addEventListener("change", () => {
    const chosen = Object.fromEntries(new FormData(controls));
    go(address("forms", { ...chosen, q: document.getElementById("query").value.trim() }), true, true);
  });
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("reset", (event) => {
    event.preventDefault();
    document.getElementById("query").value = "";
    go(address("forms"), true);
  });
  list(results, ask);
  return [el("h1", {}, "Forms"), controls, results];
};

// Rows that were drawn before, by form: most forms stay in the list from one key to the next.
let drawn = new Map();
let drawnFor;

// Fills the element with the forms that an address asks for.
const list = (results, ask) => {
  const found = filtered(ask);
  const asked = targets.indexOf(ask.target);
  const machines = gpus();
  const columns = own().map((_, n) => n);
  if (asked >= sm12x) columns.push(asked);
  const body = el("tbody");
  if (drawnFor !== columns.join()) {
    drawnFor = columns.join();
    drawn = new Map();
  }
  const row = (form) => {
    if (!drawn.has(form)) drawn.set(form, drawRow(form));
    return drawn.get(form);
  };
  const drawRow = (form) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("a", { href: formAddress(form) }, form.id), form.text?.line ? el("code", { class: "line" }, oneLine(form.text.line)) : null),
      columns.map((n) => {
        const { text, kind, words } = summary(form, n);
        return cell(text, kind, words);
      }),
      machines.map((gpu) => {
        const { text, kind, words } = runOn(gpu.device, form);
        return cell(text, kind, words);
      }),
    );
  const more = growing(body, found, row, "form");
  const total = found.length === data.forms.length ? "" : ` of ${data.forms.length.toLocaleString("en")}`;
  const text = total ? `${found.length.toLocaleString("en")}${total} forms` : count(found.length, "form");
  // Where the columns are the same, the table keeps its frame: a browser lays out what changes.
  const kept = results.dataset.columns === drawnFor && found.length && results.querySelector("tbody");
  if (kept) {
    document.getElementById("count").textContent = text;
    results.querySelector(".remedy")?.remove();
    results.prepend(...remedyOf(ask.q));
    kept.replaceWith(body);
    results.querySelector(".more").replaceWith(more);
    say(text);
    return;
  }
  results.dataset.columns = found.length ? drawnFor : "";
  const head = el("tr", {}, el("th", { scope: "col" }, "form"), columns.map((n) => el("th", { scope: "col" }, short(targets[n]))), machines.map((gpu) => el("th", { scope: "col", title: `${gpu.name}, driver ${gpu.driver}` }, `GPU ${short(gpu.architecture)}`)));
  results.replaceChildren(
    ...remedyOf(ask.q),
    el("p", { class: "count", id: "count" }, text),
    found.length ? legend() : "",
    found.length
      ? scrolled("Forms", el("table", { class: "grid forms" }, el("thead", {}, head), body))
      : el("p", {}, "No form matches. Fewer words or filters find more."),
    more,
  );
  say(text);
};

// Cause and remedy of a message of ptxas that was pasted into the search.
const remedyOf = (query) => {
  const [, cause, remedy] = data.kinds[messageFor(query ?? "")?.kind] ?? [];
  return cause ? [el("div", { class: "notice remedy" }, el("p", {}, el("b", {}, "Cause: "), cause), remedy ? el("p", {}, el("b", {}, "Remedy: "), remedy) : null)] : [];
};

// What tells forms apart is at the end of an instruction's name: operands are cut, the name is not.
const oneLine = (text) => {
  const flat = text.replace(/\s+/g, " ");
  if (flat.length <= 110) return flat;
  const name = flat.split(" ")[0];
  return `${flat.slice(0, Math.max(109, name.length)).trimEnd()}…`;
};

const legend = () =>
  el(
    "p",
    { class: "legend" },
    "12.9+: accepted from that toolkit on, of those queried. ✓: by every queried toolkit. N native, S split into several instructions, E emulated. ✗ rejected, ⊘ absent by design, ? unknown to the toolkits, · not queried.",
  );

const claimsView = (ask) => {
  const status = ["confirmed", "refuted", "untested"];
  const some = data.claims.filter((claim) => (!ask.status || claim.status === ask.status) && (!ask.finding || claim.finding));
  const links = [["", "all"], ...status.map((s) => [s, s])].map(([value, text]) => {
    const number = value ? data.claims.filter((claim) => claim.status === value).length : data.claims.length;
    return el("a", { href: address("claims", { status: value }), "aria-current": (ask.status ?? "") === value ? "true" : null }, `${text} (${number.toLocaleString("en")})`);
  });
  const body = el("tbody");
  const row = (claim) => {
    const first = data.forms[claim.forms[0]];
    return el("tr", {}, el("th", { scope: "row" }, first ? el("a", { href: formAddress(first) }, claim.subject) : claim.subject), el("td", {}, link(claim.url, claim.source)), el("td", {}, claim.says), el("td", { class: `status ${claim.status}` }, claim.measured, claim.finding ? el("strong", {}, " (differs from what is recorded)") : null));
  };
  const more = growing(body, some, row, "claim");
  const head = el("tr", {}, ["about", "source", "says", "measured"].map((name) => el("th", { scope: "col" }, name)));
  return [
    el("h1", {}, "Claims"),
    el("p", {}, "What manuals, sources and threads say, compared with the cells of the matrix."),
    el("p", { class: "pills" }, links),
    scrolled("Claims", el("table", {}, el("thead", {}, head), body)),
    more,
  ];
};
