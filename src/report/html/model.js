// What the cells say: answers, the first toolkit that accepts, and how the SM12x targets differ.

const ANSWERS = {
  N: { mark: "N", word: "accepted, native", kind: "yes" },
  S: { mark: "S", word: "accepted, split into several hardware instructions", kind: "part" },
  E: { mark: "E", word: "accepted, emulated", kind: "part" },
  A: { mark: "✓", word: "accepted, not known whether native", kind: "yes" },
  R: { mark: "✗", word: "rejected", kind: "no" },
  B: { mark: "⊘", word: "rejected, absent by design", kind: "no" },
  U: { mark: "?", word: "unknown to this toolkit", kind: "open" },
  C: { mark: "!", word: "ptxas crashed", kind: "open" },
  T: { mark: "!", word: "ptxas timed out", kind: "open" },
  ".": { mark: "·", word: "not queried", kind: "open" },
};
const accepts = (letter) => "NSEA".includes(letter);
const rejects = (letter) => "RB".includes(letter);

let data, toolkits, targets, sm12x, newest;

const start = (read) => {
  data = read;
  toolkits = data.toolkits.map(([version]) => version);
  targets = data.targets;
  sm12x = data.sm12x;
  newest = toolkits.length - 1;
  data.grids = data.grids.map((runs) => ({ runs, cells: null, groups: [], summaries: [] }));
  data.forms.forEach((form, n) => {
    form.n = n;
    form.family = data.snippets[form.snippet]?.family ?? "";
  });
};

// What a GPU made of a form, over all of its checks; nothing where it did not run it.
let ran;
const runOn = (device, form) => {
  if (!ran) {
    ran = new Map();
    for (const run of data.runs) {
      const key = `${run.device}\n${run.form}`;
      ran.set(key, [...(ran.get(key) ?? []), ...run.checks]);
    }
  }
  const checks = ran.get(`${device}\n${form.id}`);
  if (!checks?.length) return { text: "·", kind: "open", words: "not run on this GPU" };
  const has = (verdicts) => checks.find(([, verdict]) => verdicts.includes(verdict));
  const wrong = checks.find(([, verdict]) => !["pass", "blocked", "skipped", "undetermined", "known_fail", "expected_absent"].includes(verdict));
  if (wrong) return { text: "✗", kind: "no", words: `${wrong[0].replace("_", " ")}: ${wrong[1].replace("_", " ")} ${wrong[2]}` };
  if (has(["blocked"])) return { text: "⊘", kind: "open", words: "the GPU has no such instruction" };
  return { text: "✓", kind: "yes", words: `passes ${checks.filter(([, verdict]) => verdict === "pass").map(([check]) => check.replace("_", " ")).join(", ")}` };
};
// The GPUs that ran forms.
const gpus = () => data.devices.filter((device) => data.runs.some((run) => run.device === device.device));

const cells = (grid) => (grid.cells ??= letters(grid.runs));
const letterAt = (form, target, toolkit) =>
  cells(data.grids[form.grid])[target * toolkits.length + toolkit] ?? ".";
const short = (target) => target.replace(/^sm_/, "");

// "13.1" for the only release of 13.1, else the whole version.
const release = (n) => {
  const minor = (version) => version.split(".").slice(0, 2).join(".");
  const own = minor(toolkits[n]);
  return toolkits.filter((version) => minor(version) === own).length === 1 ? own : toolkits[n];
};
// The same where a range begins: the first release of 13.1 is 13.1.
const from = (n) => {
  const minor = (version) => version.split(".").slice(0, 2).join(".");
  return n > 0 && minor(toolkits[n - 1]) === minor(toolkits[n]) ? toolkits[n] : minor(toolkits[n]);
};

// The release after another that has a toolkit; 12.7 came only with drivers.
const nextRelease = (version) => {
  const [major, minor] = version.split(".").map(Number);
  return { "11.8": "12.0", "12.6": "12.8", "12.9": "13.0" }[`${major}.${minor}`] ?? `${major}.${minor + 1}`;
};
// The start of what the queried toolkits before do not have, in words, as far as it was queried.
const sinceWords = (first, before) => {
  const minor = (version) => version.split(".").slice(0, 2).join(".");
  if (before === undefined) return `since ${toolkits[first]}, the oldest queried`;
  const near = [minor(toolkits[before]), nextRelease(toolkits[before])].includes(minor(toolkits[first]));
  return near ? `since ${from(first)}` : `in ${from(first)}, not in ${release(before)}`;
};

// A row of the grid in a few characters, and in words.
const summary = (form, target) => {
  const grid = data.grids[form.grid];
  return (grid.summaries[target] ??= summarised(cells(grid), target));
};
const summarised = (all, target) => {
  const width = toolkits.length;
  const row = [...all.slice(target * width, (target + 1) * width)];
  const said = row.map((letter, n) => [letter, n]).filter(([letter]) => !"U.".includes(letter));
  if (!said.length) {
    const letter = row.includes("U") ? "U" : ".";
    return { text: ANSWERS[letter].mark, kind: "open", words: letter === "U" ? "unknown: no queried toolkit knows the target or the PTX version" : "not queried" };
  }
  const [last] = said[said.length - 1];
  const yes = said.filter(([letter]) => accepts(letter));
  if (!yes.length) {
    const word = said.every(([letter]) => letter === "B") ? "B" : rejects(last) ? "R" : last;
    return { text: ANSWERS[word].mark, kind: ANSWERS[word].kind, words: `${ANSWERS[word].word} by every toolkit that knows the target` };
  }
  if (!accepts(last)) {
    const end = yes[yes.length - 1][1];
    return { text: `to ${release(end)}`, kind: "part", words: `accepted up to ${toolkits[end]}, ${ANSWERS[last].word} by ${toolkits[said[said.length - 1][1]]}` };
  }
  let first = said.length - 1;
  while (first > 0 && accepts(said[first - 1][0])) first--;
  const since = said[first][1];
  const native = "NSE".includes(last) ? ` ${last}` : "";
  const always = since === 0;
  const asked = row.flatMap((letter, n) => (letter === "." ? [] : [n]));
  const open = said[said.length - 1][1] < newest;
  return {
    text: (always ? "✓" : `${from(since)}+`) + native + (open ? "?" : ""),
    kind: ANSWERS[last].kind,
    since,
    words: `${ANSWERS[last].word}, ${sinceWords(since, asked.filter((n) => n < since).pop())}${open ? `; unknown to ${toolkits[newest]}` : ""}`,
  };
};

const suffixOf = (target) => /[af]$/.exec(target)?.[0] ?? "";
const own = () => targets.slice(0, sm12x);

// How the SM12x targets answer, in words.
const group = (form, toolkit) => {
  const grid = data.grids[form.grid];
  return (grid.groups[toolkit] ??= grouped(form, toolkit));
};
const grouped = (form, toolkit) => {
  const answers = own().map((_, n) => letterAt(form, n, toolkit));
  const yes = answers.map(accepts);
  if (answers.every((letter) => letter === "B")) return "absent by design";
  if (answers.every(rejects)) return "rejected on all";
  if (yes.every(Boolean)) return "accepted on all";
  if (answers.every((letter) => letter === "U")) return "unknown to this toolkit";
  if (answers.every((letter) => letter === ".")) return "not queried";
  if (!answers.every((letter) => accepts(letter) || rejects(letter))) return "not known for all";
  const of = (suffix) => {
    const some = own().map((target, n) => [target, yes[n]]).filter(([target]) => suffixOf(target) === suffix);
    return some.length && some.every(([, answer]) => answer === some[0][1]) ? some[0][1] : null;
  };
  const key = [of(""), of("a"), of("f")].map((answer) => (answer === null ? "?" : answer ? "y" : "n")).join("");
  return (
    {
      nyy: "needs a suffix, a or f",
      nyn: "a only, not f",
      nny: "f only, not a",
      yyn: "all but f",
      yny: "all but a",
      ynn: "only without suffix",
    }[key] ?? "differs by number"
  );
};
const GROUPS = [
  "accepted on all",
  "needs a suffix, a or f",
  "a only, not f",
  "f only, not a",
  "all but f",
  "all but a",
  "only without suffix",
  "differs by number",
  "rejected on all",
  "absent by design",
  "unknown to this toolkit",
  "not queried",
  "not known for all",
];

const messagesOf = (form) => (form.messages ??= indices(form.says));
const opcodesOf = (form) => (form.opcodes ??= indices(form.code));

// Names in other languages: letters, digits and underscores.
const identifier = (id) => id.replace(/[^A-Za-z0-9]/g, "_");

// Accepted forms of the same family that are nearest by the parts of their names.
const parts = (form) => (form.parts ??= new Set(form.id.split(/[._]/)));
const nearest = (form, target) => {
  const mine = parts(form);
  const distance = (other) => {
    let common = 0;
    for (const part of parts(other)) if (mine.has(part)) common++;
    return mine.size + parts(other).size - 2 * common;
  };
  return data.forms
    .filter((other) => other !== form && other.family === form.family && accepts(letterAt(other, target, newest)))
    .map((other) => [distance(other), other])
    .filter(([away]) => away <= Math.max(4, mine.size))
    .sort((a, b) => a[0] - b[0] || a[1].n - b[1].n)
    .slice(0, 3)
    .map(([, other]) => other);
};

// The target that most people compile for: the one with most features.
const mainTarget = () => {
  const wanted = targets.indexOf("sm_121a");
  return wanted >= 0 ? wanted : 0;
};
