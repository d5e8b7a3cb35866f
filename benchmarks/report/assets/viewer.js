// The viewer: which run, prompt, token and pass are shown.

const state = { run: 0, prompt: 0, pass: null, place: 0, colour: 'way', sample: null, tokens: [], elements: [] };

function readHash() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const number = (key) => (wanted.has(key) ? Number(wanted.get(key)) : null);
  return { run: number('run'), prompt: number('prompt'), pass: number('pass') };
}

function writeHash() {
  const pass = state.pass === null ? '' : `&pass=${state.pass + 1}`;
  history.replaceState(null, '', `#run=${state.run}&prompt=${state.prompt}${pass}`);
}

function fillRuns() {
  const groups = new Map();
  index.forEach((run, place) => {
    const name = `${run.dataset}, ${run.model}`;
    if (!groups.has(name)) groups.set(name, make('optgroup', { label: name }));
    const empty = run.prompts.length ? '' : ', no samples';
    const option = make('option', { value: place }, `${run.label} (${run.guarantee === 'lossy' ? 'lossy' : 'lossless'}${empty})`);
    option.disabled = !run.prompts.length;
    groups.get(name).append(option);
  });
  byId('run').replaceChildren(...groups.values());
}

function fillPrompts() {
  byId('prompt').replaceChildren(...index[state.run].prompts.map((id, place) => make('option', { value: place }, id)));
}

function showFacts(sample) {
  const facts = sample.facts;
  const number = (value, digits = 2) => (value === null || value === undefined ? '–' : value.toFixed(digits));
  const finish = { eos: 'end token', length: 'cut at the budget', stop: 'stop string' };
  const rows = [
    ['tokens', facts.tokens],
    ['passes', facts.passes],
    ['τ of this prompt', number(facts.tau)],
    ['speedup of this prompt', number(facts.speedup)],
    ['score, method / plain', `${number(facts.score)} / ${number(facts.greedy_score)}`],
    ['quality of the whole run', index[state.run].quality],
    ['ended by', finish[facts.finish] ?? facts.finish],
  ];
  byId('facts').replaceChildren(
    ...rows.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, String(value)))),
  );
}

function clear(words) {
  for (const id of ['facts', 'legend', 'ours', 'greedy']) byId(id).replaceChildren();
  Object.assign(state, { sample: null, tokens: [], elements: [] });
  byId('divergence').textContent = '';
  byId('token-info').textContent = words;
  showPass(null);
}

async function showSample(run, prompt, pass = null) {
  Object.assign(state, { run, prompt, pass: null, place: 0 });
  byId('run').value = run;
  fillPrompts();
  byId('prompt').value = prompt;
  byId('previous-prompt').disabled = prompt === 0;
  byId('next-prompt').disabled = prompt >= index[run].prompts.length - 1;
  byId('ours-title').textContent = `${index[run].label} on ${index[run].prompts[prompt] ?? 'no prompt'}`;
  if (!index[run].prompts.length) return clear('This run has no samples beside its summary.');
  const sample = await openSample(run, prompt);
  if (state.run !== run || state.prompt !== prompt) return undefined;
  if (sample.failed) return clear(`This prompt failed: ${sample.failed}`);
  state.sample = sample;
  showFacts(sample);
  if (!sample.tokens) return showWhole(sample);
  state.tokens = tokensOf(sample);
  showGreedy(byId('greedy'), sample);
  byId('divergence').textContent = divergenceWords(sample, state.tokens);
  paint();
  const wanted = pass !== null && pass < sample.passes.length ? pass : firstPassToShow(sample);
  return showPass(wanted);
}

/** Show the texts of a run that was made before texts were recorded by tokens. */
function showWhole(sample) {
  clear('This run was made before texts were recorded by tokens: run it again to see how they were made.');
  byId('ours').textContent = sample.text;
  byId('greedy').textContent = sample.greedy_text;
  showFacts(sample);
}

/** The pass that committed most is worth looking at first. */
function firstPassToShow(sample) {
  return sample.passes.length ? sample.committed.indexOf(Math.max(...sample.committed)) : null;
}

function paint() {
  state.elements = showOurs(byId('ours'), state.sample, state.tokens, state.colour);
  showLegend(byId('legend'), state.sample, state.tokens, state.colour);
  focusToken(state.place, false);
  showPass(state.pass);
}

function focusToken(place, move = true) {
  if (!state.elements.length) return;
  const at = Math.max(0, Math.min(place, state.elements.length - 1));
  state.elements[state.place]?.setAttribute('tabindex', '-1');
  state.place = at;
  state.elements[at].setAttribute('tabindex', '0');
  byId('token-info').textContent = `Token ${at + 1}: ${describe(state.tokens[at], at, state.sample)}.`;
  if (move) state.elements[at].focus();
}

/** Return the first token of the pass before (-1) or after (1) the focused token's. */
function otherPass(step) {
  const starts = state.tokens.flatMap((token, place) => (token.at === 0 ? [place] : []));
  const here = starts.filter((start) => start <= state.place).length - 1;
  return starts[Math.max(0, Math.min(here + step, starts.length - 1))];
}

function passWords(pass, number) {
  const cut = pass.proposed - pass.nodes;
  const count = state.sample.committed[number];
  const [draft, verify, judge, commit] = pass.ms;
  const nodes = pass.nodes === 1 ? 'the pending token alone was verified' : `${pass.nodes} nodes verified`;
  const dropped = cut > 0 ? `, ${cut} more drafted and cut before` : '';
  const tokens = count === 1 ? '1 token' : `${count} tokens`;
  const times = draft === null
    ? 'A replay has no times.'
    : `Draft ${draft} ms, forward ${verify} ms, judging ${judge} ms, commit ${commit} ms.`;
  return `${nodes}${dropped}; ${tokens} committed. ${times}`;
}

function showPass(number) {
  state.pass = number;
  const passes = state.sample?.passes ?? [];
  state.elements.forEach((element, place) => element.setAttribute('aria-selected', String(number !== null && state.tokens[place].pass === number)));
  byId('previous-pass').disabled = !number;
  byId('next-pass').disabled = number === null || number >= passes.length - 1;
  byId('tree').replaceChildren();
  byId('tree-list').replaceChildren();
  byId('tree-words').hidden = byId('tree-key').hidden = number === null || !passes[number].tree;
  if (number === null) {
    byId('pass-title').textContent = 'No pass chosen';
    byId('pass-facts').textContent = '';
    return;
  }
  const pass = passes[number];
  byId('pass-title').textContent = `Pass ${number + 1} of ${passes.length}`;
  const missing = pass.tree ? '' : ' Its tree was not recorded (record_trees=false).';
  byId('pass-facts').textContent = passWords(pass, number) + missing;
  if (pass.tree) drawTree(pass, number);
  writeHash();
}

function drawTree(pass, number) {
  const first = state.sample.places.indexOf(number);
  const tree = nodesOf(pass.tree, state.sample, state.tokens, first, state.colour);
  const before = state.tokens.slice(Math.max(0, first - 2), first).map((token) => token.text).join('') || 'prompt';
  const words = `Draft tree of pass ${number + 1}: ${passWords(pass, number)} The same tree stands below as a list.`;
  byId('tree').append(treePicture(tree, before, words));
  byId('tree-list').append(treeList(tree.top));
}

function choosePass(number) {
  showPass(number);
  if (number !== null) announce(`Pass ${number + 1} of ${state.sample.passes.length}: ${byId('pass-facts').textContent}`);
}

const KEYS = {
  ArrowRight: () => focusToken(state.place + 1),
  ArrowLeft: () => focusToken(state.place - 1),
  ArrowDown: () => focusToken(otherPass(1)),
  ArrowUp: () => focusToken(otherPass(-1)),
  Home: () => focusToken(0),
  End: () => focusToken(state.tokens.length - 1),
  Enter: () => choosePass(state.tokens[state.place].pass),
  ' ': () => choosePass(state.tokens[state.place].pass),
};

byId('ours').addEventListener('keydown', (event) => {
  if (!KEYS[event.key] || !state.elements.length || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  KEYS[event.key]();
});
byId('ours').addEventListener('click', (event) => {
  const token = event.target.closest('[data-place]');
  if (!token) return;
  focusToken(Number(token.dataset.place));
  choosePass(state.tokens[state.place].pass);
});
byId('ours').addEventListener('focusin', (event) => {
  if (event.target.dataset.place) focusToken(Number(event.target.dataset.place), false);
});
byId('run').addEventListener('change', () => showSample(Number(byId('run').value), Math.min(state.prompt, index[Number(byId('run').value)].prompts.length - 1)));
byId('prompt').addEventListener('change', () => showSample(state.run, Number(byId('prompt').value)));
byId('previous-prompt').addEventListener('click', () => showSample(state.run, state.prompt - 1));
byId('next-prompt').addEventListener('click', () => showSample(state.run, state.prompt + 1));
byId('previous-pass').addEventListener('click', () => choosePass(state.pass - 1));
byId('next-pass').addEventListener('click', () => choosePass(state.pass + 1));
for (const input of document.querySelectorAll('input[name="colour"]')) {
  input.addEventListener('change', () => {
    state.colour = input.value;
    if (state.sample?.tokens) paint();
  });
}
for (const button of document.querySelectorAll('button[data-run]')) {
  button.addEventListener('click', async () => {
    await showSample(Number(button.dataset.run), 0);
    byId('tokens').scrollIntoView();
    byId('run').focus({ preventScroll: true });
  });
}

function start() {
  fillRuns();
  if (!globalThis.DecompressionStream) return clear('This browser cannot open the samples: it lacks DecompressionStream.');
  const wanted = readHash();
  const known = wanted.run !== null && index[wanted.run]?.prompts.length > (wanted.prompt ?? 0);
  const filled = index.findIndex((run) => run.prompts.length);
  const pass = known && wanted.pass !== null ? wanted.pass - 1 : null;
  return showSample(known ? wanted.run : Math.max(filled, 0), known ? wanted.prompt ?? 0 : 0, pass);
}
start();
