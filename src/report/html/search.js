// Search and filters over all forms.

// Targets are quoted in messages; the page has them once for all. Of a predicate its name is searched.
const normal = (query) =>
  query
    .toLowerCase()
    .replace(/^.*?\b(?:error|fatal)\s*:\s*/, "")
    .replace(/'sm_\d+[af]?'/g, "'sm_*'")
    .replace(/#\s*(?:el)?if\b/g, " ")
    .replace(/sm12x_has(?:_form)?\(?([a-z0-9_]*)\)?/g, " $1 ")
    .trim();

const hay = (form) => {
  if (form.hay) return form.hay;
  const snippet = data.snippets[form.snippet] ?? {};
  const text = [form.id, identifier(form.id), form.text?.line, form.family, snippet.about, snippet.spec, (snippet.grants ?? []).join(" "), (form.expects ?? []).join(" ")];
  form.hay = text.join("\n").toLowerCase();
  form.name = form.id.toLowerCase();
  form.words = [form.name, form.hay].map((text) => new Set(text.split(/[^a-z0-9]+/)));
  form.said = [...new Set(messagesOf(form))].filter((n) => n >= 0);
  form.made = [...new Set(opcodesOf(form))].filter((n) => n >= 0);
  return form.hay;
};

let messageTexts, opcodeTexts;
const texts = () => {
  messageTexts ??= data.messages.map(([text, kind]) => `${text} ${data.kinds[kind]?.[0] ?? ""}`.toLowerCase());
  opcodeTexts ??= data.opcodes.map((text) => text.toLowerCase());
};

// How well each form holds a term: 0 as a word of its name to 4 in what the tools say of it; ABSENT where it does not.
const ABSENT = 5;
const ranksOf = (term) => {
  texts();
  const asWord = new RegExp(`(^|[^a-z0-9])${term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}($|[^a-z0-9])`);
  const plain = /^[a-z0-9]+$/.test(term);
  const word = (text, words) => (plain ? words.has(term) : asWord.test(text));
  const messages = messageTexts.map((text) => text.includes(term));
  const opcodes = opcodeTexts.map((text) => text.includes(term));
  return Uint8Array.from(data.forms, (form) => {
    const text = hay(form);
    if (form.name.includes(term)) return word(form.name, form.words[0]) ? 0 : 1;
    if (text.includes(term)) return word(text, form.words[1]) ? 2 : 3;
    return form.said.some((n) => messages[n]) || form.made.some((n) => opcodes[n]) ? 4 : ABSENT;
  });
};

// A key changes one term; the others keep their ranks.
let ranks = new Map();

// A message without what it quotes: the cause and the remedy are those of its kind.
const bare = (text) => normal(text).replace(/'[^']*'/g, "'*'").replace(/\s+/g, " ");

// What ptxas says in words like those of a query: the message itself, or else one of its kind; nothing for other queries.
const messageFor = (query) => {
  const wanted = normal(query).replace(/\s+/g, " ");
  if (wanted.split(" ").length < 3) return null;
  const same = data.messages.flatMap(([text], n) => (normal(text).replace(/\s+/g, " ") === wanted ? [n] : []));
  if (same.length) return { numbers: new Set(same), kind: data.messages[same[0]][1] };
  const like = bare(query);
  const kin = like.includes("'*'") ? data.messages.findIndex(([text]) => bare(text) === like) : -1;
  return kin < 0 ? null : { numbers: new Set(), kind: data.messages[kin][1] };
};

// The instruction that a name of another language becomes: a CUDA intrinsic, a CUTLASS atom, an opcode.
const renamed = (query) => {
  const name = query.trim().split(/[<(]/)[0].trim().replace(/^cute::/, "");
  for (const [pattern, forms] of data.names ?? []) {
    const found = new RegExp(`^(?:${pattern})$`).exec(name);
    if (!found) continue;
    const form = forms[0].replace(/\$(\d)/g, (_, n) => found[n] ?? "");
    return forms[0].includes("$") ? form.replaceAll("_", ".") : form;
  }
  return null;
};

// An instruction as it is written, without its predicate and operands; nothing for other queries.
const instructionOf = (query) => /^\s*(?:@!?%?\w+\s+)?([a-z]\w*(?:\.[\w:]+)+)(?=[\s;]|$)/.exec(query)?.[1] ?? null;

// What must be rejected comes last; else what some SM12x target takes comes first, where `accepted` asks for it.
const ordered = (forms, accepted) => {
  const rank = (form) => (form.refused ? 2 : accepted && !own().some((_, n) => accepts(letterAt(form, n, newest))) ? 1 : 0);
  return [0, 1, 2].flatMap((wanted) => forms.filter((form) => rank(form) === wanted));
};

// The forms that a query leads to, the nearest first.
const search = (query, forms) => {
  if (!query.trim()) return forms;
  const said = messageFor(query);
  if (said?.numbers.size) {
    const holds = (form) => hay(form) && form.said.some((n) => said.numbers.has(n));
    const found = ordered(forms.filter(holds), true);
    if (found.some((form) => !form.refused)) return found;
    // A message that only negative tests have leads to the forms nearest to what it quotes.
    const quoted = [...normal(query).matchAll(/'([^']*)'/g)].map(([, word]) => word).filter((word) => !word.startsWith("sm_"));
    for (let n = quoted.length; n > 0; n--) {
      const near = matching(quoted.slice(0, n).join(" "), forms).filter((form) => !form.refused);
      if (near.length) return [...ordered(near, true), ...found];
    }
    return found;
  }
  const found = matching(query, forms);
  if (found.length) return ordered(found, false);
  // Each part of an instruction is looked for on its own: people leave some out, and ptxas does.
  const written = renamed(query) ?? instructionOf(query) ?? (said && instructionOf(/'([^']*)'/.exec(query)?.[1] ?? ""));
  const whole = written ? matching(written, forms) : [];
  return ordered(whole.length || !written ? whole : matching(written.replace(/\./g, " "), forms), true);
};

// The forms that hold every term, those first that hold it in their name or their line.
const matching = (query, forms) => {
  // Every form has an answer for every target: the name of one narrows nothing.
  const terms = normal(query).split(/\s+/).filter((term) => term && !targets.includes(term));
  if (!terms.length) return forms;
  ranks = new Map(terms.map((term) => [term, ranks.get(term) ?? ranksOf(term)]));
  const each = [...ranks.values()];
  // By the sum of ranks, each in the order of the record.
  const ranked = Array.from({ length: ABSENT * each.length }, () => []);
  for (const form of forms) {
    const own = each.map((rank) => rank[form.n]);
    if (!own.includes(ABSENT)) ranked[own.reduce((sum, rank) => sum + rank)].push(form);
  }
  return ranked.flat();
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
