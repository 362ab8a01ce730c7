// The embedded data: base64, inflate, JSON; and the runs in which cells are stored.

const bytesOf = (text) => {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let n = 0; n < binary.length; n++) bytes[n] = binary.charCodeAt(n);
  return bytes;
};

const readData = async () => {
  const element = document.getElementById("data");
  if (element.dataset.kind === "json") return JSON.parse(element.textContent);
  const stream = new Blob([bytesOf(element.textContent)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("deflate"))).json();
};

// "R3N" as "RRRN".
const letters = (runs) =>
  runs.replace(/(\D)(\d+)/g, (_, letter, count) => letter.repeat(Number(count)));

// "-*2,7" as [-1, -1, 7]; nothing as an empty list.
const indices = (runs) => {
  const out = [];
  if (!runs) return out;
  for (const run of runs.split(",")) {
    const [name, count] = run.split("*");
    const value = name === "-" ? -1 : Number(name);
    for (let n = Number(count ?? 1); n > 0; n--) out.push(value);
  }
  return out;
};
