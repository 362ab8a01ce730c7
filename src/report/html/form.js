// One form: its answers, its text, why it is rejected, and what is known beside.

const formView = (id) => {
  const form = data.forms.find((f) => f.id === id);
  if (!form) {
    const near = search(id.replace(/[._]/g, " "), data.forms).slice(0, 8);
    return [el("h1", {}, "No such form"), el("p", {}, `This record has no form “${id}”.`), near.length ? el("p", {}, "Similar: ", near.flatMap((f) => [el("a", { href: formAddress(f) }, f.id), " "])) : null];
  }
  const snippet = data.snippets[form.snippet] ?? {};
  return [
    el("p", { class: "crumbs" }, el("a", { href: address("forms") }, "Forms"), " › ", el("a", { href: address("forms", { family: form.family }) }, form.family)),
    el("h1", { class: "id" }, form.id),
    verdictOf(form),
    form.text?.line ? el("pre", { class: "ptx", tabindex: "0", "aria-label": "The instruction" }, form.text.line) : null,
    copies(form, snippet),
    el("p", {}, snippet.about ?? "", snippet.spec ? el("span", { class: "faint" }, ` ${snippet.spec}.`) : null),
    gridOf(form),
    instead(form),
    saidOf(form),
    codeOf(form),
    ranOn(form),
    emulated(form),
    claimsOf(form),
    crossedOf(form),
    form.text?.ptx ? el("details", {}, el("summary", {}, "The whole module"), el("pre", { class: "ptx", tabindex: "0", "aria-label": "The whole module" }, form.text.ptx), copyButton("Copy the module", form.text.ptx)) : null,
  ];
};

// SM12x targets that say the same share a line.
const verdictOf = (form) => {
  const lines = new Map();
  own().forEach((target, n) => {
    const { words, kind, text } = summary(form, n);
    const key = words;
    if (!lines.has(key)) lines.set(key, { kind, text, names: [] });
    lines.get(key).names.push(target);
  });
  const order = { yes: 0, part: 1, no: 2, open: 3 };
  const items = [...lines].sort((a, b) => order[a[1].kind] - order[b[1].kind]);
  return el("ul", { class: "verdict", id: "verdict" }, items.map(([words, { kind, text, names }]) => el("li", { class: kind }, el("b", {}, names.join(", ")), `: ${words} `, el("span", { class: "badge", "aria-hidden": "true" }, text))));
};

const copies = (form, snippet) => {
  const best = own().find((_, n) => accepts(letterAt(form, n, newest)));
  const target = targets.includes("sm_121a") ? "sm_121a" : (best ?? targets[0]);
  const guard = `#include "sm12x_has.h"\n#if SM12X_HAS_FORM(${identifier(form.id)})`;
  const buttons = [
    form.text?.line ? copyButton("Copy the instruction", form.text.line) : null,
    copyButton("Copy as predicate", guard),
    ...(snippet.grants ?? []).map((name) => copyButton(`Copy SM12X_HAS(${name})`, `#if SM12X_HAS(${name})`)),
    copyButton("Copy a repro command", `sm121probe matrix --filter '${form.id}' --toolkit ${toolkits[newest]} --target ${target}`),
    copyButton("Copy link", location.href),
  ];
  return el("p", { class: "copies" }, buttons);
};

const gridOf = (form) => {
  const head = el("tr", {}, el("th", { scope: "col" }, "target"), toolkits.map((version) => el("th", { scope: "col", class: "version" }, version)), el("th", { scope: "col" }, "since"));
  const rows = targets.map((target, n) => {
    const each = toolkits.map((_, t) => {
      const answer = ANSWERS[letterAt(form, n, t)];
      return cell(answer.mark, answer.kind, answer.word);
    });
    const { text } = summary(form, n);
    return el("tr", { class: n === sm12x ? "apart" : null }, el("th", { scope: "row" }, target), each, el("td", { class: "since" }, text));
  });
  return el("section", {}, el("h2", {}, "Every target and toolkit"), scrolled("Every target and toolkit", el("table", { class: "grid dense", id: "cells" }, el("thead", {}, head), el("tbody", {}, rows))), legend());
};

// Places in few words: targets that have the same toolkits share a line.
const places = (list) => {
  const width = toolkits.length;
  const byTarget = new Map();
  for (const cellAt of list) {
    const target = Math.floor(cellAt / width);
    if (!byTarget.has(target)) byTarget.set(target, []);
    byTarget.get(target).push(cellAt % width);
  }
  const lines = new Map();
  for (const [target, some] of byTarget) {
    const key = ranges(some);
    lines.set(key, [...(lines.get(key) ?? []), targets[target]]);
  }
  return [...lines].map(([range, names]) => `${names.join(" ")}: ${range}`).join("; ");
};
const ranges = (some) => {
  const out = [];
  for (const n of some) {
    const last = out[out.length - 1];
    if (last && last[1] === n - 1) last[1] = n;
    else out.push([n, n]);
  }
  return out.map(([a, b]) => (a === b ? toolkits[a] : `${toolkits[a]} to ${toolkits[b]}`)).join(", ");
};
const spread = (runs) => {
  const at = new Map();
  runs.forEach((index, cellAt) => {
    if (index < 0) return;
    if (!at.has(index)) at.set(index, []);
    at.get(index).push(cellAt);
  });
  return at;
};

const saidOf = (form) => {
  const at = spread(messagesOf(form));
  if (!at.size) return null;
  const items = [...at].map(([index, list]) => {
    const [text, kind] = data.messages[index];
    const [, cause, remedy] = data.kinds[kind] ?? [];
    return el("li", {}, el("code", { class: "message" }, text), cause ? el("p", {}, cause) : null, remedy ? el("p", {}, el("b", {}, "Remedy: "), remedy) : null, el("p", { class: "faint" }, places(list)));
  });
  return el("section", {}, el("h2", {}, "What ptxas says"), el("ul", { class: "said" }, items));
};

const codeOf = (form) => {
  const at = spread(opcodesOf(form));
  if (!at.size) return null;
  const items = [...at].map(([index, list]) => el("li", {}, el("code", {}, data.opcodes[index]), el("p", { class: "faint" }, places(list))));
  const wanted = form.expects?.length ? el("p", {}, "The hardware instruction is ", el("code", {}, form.expects.join(" or ")), ".") : null;
  return el("section", {}, el("h2", {}, "Opcodes of the machine code"), wanted, el("ul", { class: "said" }, items));
};

const instead = (form) => {
  const refused = own().map((_, n) => n).filter((n) => rejects(letterAt(form, n, newest)));
  if (!refused.length) return null;
  const target = refused.includes(mainTarget()) ? mainTarget() : refused[refused.length - 1];
  const rows = (form.text?.instead ?? []).map(([id, how]) => [data.forms.find((f) => f.id === id), how]).filter(([f]) => f);
  const near = rows.length ? [] : nearest(form, target).map((f) => [f, ""]);
  const items = [...rows, ...near].map(([other, how]) => el("li", {}, el("a", { href: formAddress(other) }, other.id), how ? `: ${how}` : null, other.text?.line ? el("code", { class: "line" }, oneLine(other.text.line)) : null));
  if (!items.length) return null;
  const title = rows.length ? "What SM12x has instead" : `Nearest forms that ${targets[target]} accepts`;
  return el("section", {}, el("h2", {}, title), el("ul", {}, items));
};

const ranOn = (form) => {
  const runs = data.runs.filter((run) => run.form === form.id);
  const gpus = runs.filter((run) => run.device !== "emulator");
  const items = runs.map((run) => {
    const device = data.devices.find((d) => d.device === run.device);
    const name = device ? `${device.name} (${device.architecture}, driver ${device.driver || "unknown"})` : run.device;
    const checks = run.checks.map(([check, verdict, note]) => el("li", { class: verdict === "pass" ? "yes" : verdict === "blocked" || verdict === "skipped" ? "open" : "no" }, `${check.replace("_", " ")}: ${verdict.replace("_", " ")}${note ? ` (${note})` : ""}`));
    return el("li", {}, el("b", {}, name), `, code for ${run.target}${run.code ? ` by ${run.code}` : ""}`, el("ul", { class: "verdict" }, checks));
  });
  if (!gpus.length) items.push(el("li", {}, "No GPU has run this form in this record."));
  return el("section", {}, el("h2", {}, "GPUs"), el("ul", {}, items));
};

const emulated = (form) => {
  if (!form.text) return null;
  const { unsupported } = form.text;
  return el("section", {}, el("h2", {}, "Emulator"), el("p", {}, unsupported ? `The emulator does not run it for sm_121a: ${unsupported}` : "The emulator runs it."));
};

const claimsOf = (form) => {
  const some = data.claims.filter((claim) => claim.forms.includes(form.n));
  if (!some.length) return null;
  const rows = some.map((claim) => el("tr", {}, el("td", {}, link(claim.url, claim.source)), el("td", {}, claim.says), el("td", { class: `status ${claim.status}` }, claim.measured)));
  const head = el("tr", {}, ["source", "says", "measured, over all forms of the claim"].map((name) => el("th", { scope: "col" }, name)));
  return el("section", {}, el("h2", {}, "Claims"), scrolled("Claims", el("table", {}, el("thead", {}, head), el("tbody", {}, rows))));
};

const crossedOf = (form) => (form.crossed ? el("details", {}, el("summary", {}, "With another -arch than the .target"), el("pre", { tabindex: "0", "aria-label": "With another -arch than the .target" }, form.crossed)) : null);
