// The first view: what the SM12x targets accept, by the newest toolkit.

const gpuNotice = () => {
  const ours = data.devices.filter((device) => device.sm12x);
  const names = (devices) => devices.map((d) => `${d.name} (${d.architecture}, driver ${d.driver || "unknown"}, CUDA ${d.cuda})`).join("; ");
  if (ours.length) return el("p", { class: "notice" }, `SM12x GPUs in this record: ${names(ours)}.`);
  const others = data.devices.length ? ` Other GPUs in it: ${names(data.devices)}.` : "";
  return el(
    "p",
    { class: "notice", id: "no-gpu" },
    el("strong", {}, "No SM12x GPU has run yet in this record. "),
    "The answers are ptxas's (what assembles) and those of its machine code (what is native), not a GPU's.",
    others,
  );
};

const answerView = () => {
  const forms = data.forms;
  const main = [el("h1", {}, "What sm_121 and sm_120 accept, with and without suffix")];
  if (!toolkits.length) return [...main, el("p", {}, "This record has no capability matrix."), gpuNotice()];
  main.push(
    el("p", { class: "lead" }, `${count(forms.length, "instruction form")}, ${count(toolkits.length, "toolkit")} (${toolkits[0]} to ${toolkits[newest]}), ${count(targets.length, "target")}. Counts below are those of ptxas ${toolkits[newest]}.`),
    gpuNotice(),
    targetCards(forms),
    groupTable(forms),
    familyTable(forms),
  );
  for (const [part, reason] of data.skipped) main.push(el("p", { class: "notice" }, `Not done: ${part}: ${reason}`));
  return main;
};

const targetCards = (forms) => {
  const cards = own().map((target, n) => {
    const yes = forms.filter((form) => accepts(letterAt(form, n, newest))).length;
    const native = forms.filter((form) => letterAt(form, n, newest) === "N").length;
    return el("a", { class: "card", href: address("forms", { target, answer: "accepted" }) }, el("b", {}, target), el("span", { class: "big" }, yes.toLocaleString("en")), el("span", {}, `forms accepted, ${native.toLocaleString("en")} native`));
  });
  const alike = [];
  for (const suffix of ["", "a", "f"]) {
    const [left, right] = ["sm_120", "sm_121"].map((name) => targets.indexOf(name + suffix));
    if (left < 0 || right < 0) continue;
    const differ = forms.filter((form) => accepts(letterAt(form, left, newest)) !== accepts(letterAt(form, right, newest)));
    alike.push(`${targets[left]} and ${targets[right]}: ${differ.length ? count(differ.length, "form") + (differ.length === 1 ? " differs" : " differ") : "no difference"}`);
  }
  return el("section", {}, el("h2", {}, "Targets"), el("div", { class: "cards" }, cards), alike.length ? el("p", {}, `${alike.join(". ")}.`) : null);
};

const groupTable = (forms) => {
  const counts = new Map();
  for (const form of forms) counts.set(group(form, newest), (counts.get(group(form, newest)) ?? 0) + 1);
  const rows = GROUPS.filter((name) => counts.has(name)).map((name) => {
    const sample = forms.find((form) => group(form, newest) === name);
    return el("tr", {}, el("th", { scope: "row" }, el("a", { href: address("forms", { group: name }) }, name)), own().map((_, n) => answerCell(sample, n)), el("td", { class: "number" }, counts.get(name).toLocaleString("en")));
  });
  const head = el("tr", {}, el("th", { scope: "col" }, "answer"), own().map((t) => el("th", { scope: "col" }, short(t))), el("th", { scope: "col", class: "number" }, "forms"));
  return el("section", {}, el("h2", {}, "How the suffixes differ"), scrolled("How the suffixes differ", el("table", { class: "grid" }, el("thead", {}, head), el("tbody", {}, rows))));
};

// A group's answer on a target: whether, not how the code looks.
const answerCell = (form, target) => {
  const letter = letterAt(form, target, newest);
  const answer = accepts(letter) ? { mark: "✓", kind: "yes", word: "accepted" } : ANSWERS[letter];
  return cell(answer.mark, answer.kind, answer.word);
};

const familyTable = (forms) => {
  const families = [...new Set(forms.map((form) => form.family))].sort();
  const rows = families.map((family) => {
    // As the terminal counts: what exists to be rejected stands apart.
    const some = forms.filter((form) => form.family === family && !form.refused);
    const cellsOf = own().map((target, n) => {
      const yes = some.filter((form) => accepts(letterAt(form, n, newest))).length;
      const kind = yes === some.length ? "yes" : yes === 0 ? "no" : "part";
      const shown = some.length && yes === some.length ? "all" : yes ? yes.toLocaleString("en") : "none";
      return el("td", { class: `answer ${kind}` }, el("a", { href: address("forms", { family, target, answer: "accepted" }), "aria-label": `${shown} of ${some.length} forms of ${family} accepted on ${target}` }, shown));
    });
    return el("tr", {}, el("th", { scope: "row" }, el("a", { href: address("forms", { family }) }, family)), el("td", { class: "number" }, some.length.toLocaleString("en")), cellsOf);
  });
  const head = el("tr", {}, el("th", { scope: "col" }, "family"), el("th", { scope: "col", class: "number" }, "forms"), own().map((t) => el("th", { scope: "col" }, short(t))));
  return el(
    "section",
    {},
    el("h2", {}, "Families"),
    el("p", {}, `Forms that each target accepts. Not counted: ${count(forms.filter((form) => form.refused).length, "form")} that must be rejected, and are; they test the limits that the manual states.`),
    scrolled("Families", el("table", { class: "grid" }, el("thead", {}, head), el("tbody", {}, rows))),
  );
};
