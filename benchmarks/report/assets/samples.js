// The samples: compressed in the page, opened one at a time.

const index = JSON.parse(byId('index').textContent);
const opened = new Map();

async function inflate(letters) {
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Response(stream).json();
}

/** Return a sample of a run, as benchmarks/report/payload.py describes it. */
async function openSample(run, prompt) {
  const id = `sample-${run}-${prompt}`;
  if (!opened.has(id)) opened.set(id, await inflate(byId(id).textContent));
  return opened.get(id);
}

const WAYS = [
  { kind: 'exact', name: 'exact', meaning: 'a draft that is the target’s own choice' },
  { kind: 'top_k', name: 'top-k', meaning: 'a draft among the target’s best, where the target is unsure' },
  { kind: 'window', name: 'window', meaning: 'a draft let in for what follows it' },
  { kind: 'relaxed', name: 'relaxed', meaning: 'a draft let in by another lossy rule' },
  { kind: 'plain', name: 'plain', meaning: 'the target’s own next token, drafted by nobody' },
  { kind: 'last', name: 'last', meaning: 'the last token of an output, which needs no pass' },
];
const WHO_KINDS = 6;

/** Return one entry a token: its text, pass (null: none), place in the pass, way and drafter (-1: nobody). */
function tokensOf(sample) {
  let at = 0;
  return sample.tokens.map((text, place) => {
    const pass = sample.places[place];
    at = place && pass === sample.places[place - 1] ? at + 1 : 0;
    return { text, name: sample.names[0][place], pass, at, way: sample.ways[place], who: sample.who[place] };
  });
}

/** Return the class, name and meaning of a token by how it was let in, or by who drafted it. */
function kindOf(token, sample, colour) {
  if (colour === 'way' || token.who < 0) return WAYS[token.way];
  const name = sample.drafters[token.who].replaceAll('+', ' + ');
  return { kind: `who${token.who % WHO_KINDS}`, name, meaning: `drafted by ${name}` };
}

/** Return a text in which white space can be seen. */
function visible(text) {
  return text.replaceAll('\n', '↵').replaceAll('\t', '⇥').replaceAll(/^ | $/g, '␣');
}
