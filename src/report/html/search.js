// Search and filters over all forms.

// Targets are quoted in messages; the page has them once for all.
const normal = (query) =>
  query
    .toLowerCase()
    .replace(/^.*?\b(?:error|fatal)\s*:\s*/, "")
    .replace(/'sm_\d+[af]?'/g, "'sm_*'")
    .trim();

const hay = (form) => {
  if (form.hay) return form.hay;
  const snippet = data.snippets[form.snippet] ?? {};
  const text = [form.id, form.text?.line, form.family, snippet.about, snippet.spec, (snippet.grants ?? []).join(" "), (form.expects ?? []).join(" ")];
  form.hay = text.join("\n").toLowerCase();
  form.said = [...new Set(messagesOf(form))].filter((n) => n >= 0);
  form.made = [...new Set(opcodesOf(form))].filter((n) => n >= 0);
  return form.hay;
};

let messageTexts, opcodeTexts;
const texts = () => {
  messageTexts ??= data.messages.map(([text, kind]) => `${text} ${data.kinds[kind]?.[0] ?? ""}`.toLowerCase());
  opcodeTexts ??= data.opcodes.map((text) => text.toLowerCase());
};

// The forms that hold every term, those first that hold it in their name or their line.
const search = (query, forms) => {
  const terms = normal(query).split(/\s+/).filter(Boolean);
  if (!terms.length) return forms;
  texts();
  const found = terms.map((term) => ({
    term,
    word: new RegExp(`(^|[^a-z0-9])${term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}($|[^a-z0-9])`),
    messages: messageTexts.map((text) => text.includes(term)),
    opcodes: opcodeTexts.map((text) => text.includes(term)),
  }));
  const ranked = [];
  for (const form of forms) {
    const text = hay(form);
    let rank = 0;
    const all = found.every(({ term, word, messages, opcodes }) => {
      const id = form.id.toLowerCase();
      if (id.includes(term)) rank += word.test(id) ? 0 : 1;
      else if (text.includes(term)) rank += word.test(text) ? 2 : 3;
      else if (form.said.some((n) => messages[n]) || form.made.some((n) => opcodes[n])) rank += 4;
      else return false;
      return true;
    });
    if (all) ranked.push([rank, form]);
  }
  return ranked.sort((a, b) => a[0] - b[0] || a[1].n - b[1].n).map(([, form]) => form);
};

const CODE = { native: "N", split: "S", emulated: "E" };

// The forms that pass every filter of an address.
const filtered = (ask) => {
  const toolkit = ask.toolkit && toolkits.includes(ask.toolkit) ? toolkits.indexOf(ask.toolkit) : newest;
  const target = targets.indexOf(ask.target);
  const some = target >= 0 ? [target] : own().map((_, n) => n);
  const verdict = new Map();
  const passes = (form) => {
    if (ask.family && form.family !== ask.family) return false;
    // What depends on the cells alone is the same for all forms that share them.
    let known = verdict.get(form.grid);
    if (known === undefined) {
      const letters = some.map((n) => letterAt(form, n, toolkit));
      known =
        (!ask.answer || letters.some((letter) => (ask.answer === "accepted" ? accepts(letter) : ask.answer === "rejected" ? rejects(letter) : ANSWERS[letter].kind === "open"))) &&
        (!ask.code || letters.some((letter) => letter === CODE[ask.code])) &&
        (!ask.group || group(form, toolkit) === ask.group) &&
        (!ask.differs || !/^(accepted on all|rejected on all|absent by design|unknown|not )/.test(group(form, toolkit)));
      verdict.set(form.grid, known);
    }
    return known;
  };
  return search(ask.q ?? "", data.forms.filter(passes));
};
