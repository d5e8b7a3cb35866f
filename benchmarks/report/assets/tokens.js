// The two texts: the method's, token by token and pass by pass, and plain decoding's beside it.

/** Put a token's text into its element; a line's end gets a sign, and a token without text its name. */
function fill(element, text, name) {
  if (!text) {
    element.classList.add('unseen');
    element.append(name ?? '');
    return;
  }
  const lines = text.split('\n');
  lines.forEach((line, at) => {
    element.append(line);
    if (at < lines.length - 1) element.append(make('span', { class: 'space', 'aria-hidden': 'true' }, '↵'), '\n');
  });
}

function describe(token, place, sample) {
  const made = [WAYS[token.way].name];
  if (token.who >= 0) made.push(`drafted by ${sample.drafters[token.who].replaceAll('+', ' and ')}`);
  const where = token.pass === null ? 'no pass' : `pass ${token.pass + 1}, token ${token.at + 1} of ${sample.committed[token.pass]}`;
  const differs = place === sample.diverges ? ', the first that differs from plain decoding' : '';
  return `“${visible(token.text || token.name || '')}”, ${made.join(', ')}, ${where}${differs}`;
}

/** Show the method's text; return the elements of its tokens. */
function showOurs(pane, sample, tokens, colour) {
  pane.replaceChildren();
  let group = null;
  let pass;
  return tokens.map((token, place) => {
    if (group === null || token.pass !== pass) {
      pass = token.pass;
      const words = pass === null ? 'without a pass' : `pass ${pass + 1}, ${sample.committed[pass]} tokens`;
      group = make('span', { class: 'pass-text', role: 'group', 'aria-label': words });
      pane.append(group);
    }
    const element = make('span', {
      class: `tok k-${kindOf(token, sample, colour).kind}`,
      role: 'option',
      'aria-selected': 'false',
      'aria-label': describe(token, place, sample),
      tabindex: place ? '-1' : '0',
      'data-place': place,
    });
    if (place === sample.diverges) element.classList.add('diverges');
    fill(element, token.text, token.name);
    group.append(element);
    return element;
  });
}

/** Show plain decoding's text: muted as far as both agree, and a mark where they part. */
function showGreedy(pane, sample) {
  pane.replaceChildren();
  const parted = sample.diverges ?? sample.greedy.length;
  sample.greedy.forEach((text, place) => {
    const element = make('span', { class: 'tok k-plain' });
    if (place < parted) element.classList.add('shared');
    if (place === sample.diverges) {
      element.classList.add('diverges');
      element.append(make('span', { class: 'hidden' }, ' (here plain decoding differs:) '));
    }
    fill(element, text, sample.names[1][place]);
    pane.append(element);
  });
}

// What benchmarks/lossless.py found where the verifier promises plain decoding's text.
const VERDICTS = {
  near_tie: ' A near-tie: the target’s scores of both differ by rounding only.',
  mismatch: ' A mismatch: this is not what the target chooses, although the verifier promises that.',
};

function divergenceWords(sample, tokens) {
  const place = sample.diverges;
  if (place === null) return 'Both texts are the same, token for token.';
  const show = (text, name) => (text === undefined ? 'the end of the text' : `“${visible(text || name || '')}”`);
  const ours = show(tokens[place]?.text, tokens[place]?.name);
  const greedy = show(sample.greedy[place], sample.names[1][place]);
  const verdict = VERDICTS[sample.facts.verdict?.kind] ?? '';
  return `≠ First difference at token ${place + 1}: the method has ${ours}, plain decoding ${greedy}.${verdict}`;
}

function showLegend(list, sample, tokens, colour) {
  const counts = new Map();
  for (const token of tokens) {
    const kind = kindOf(token, sample, colour);
    const entry = counts.get(kind.name) ?? { ...kind, order: kindOrder(token, colour), count: 0 };
    entry.count += 1;
    counts.set(kind.name, entry);
  }
  const entries = [...counts.values()].sort((a, b) => a.order - b.order);
  list.replaceChildren(
    ...entries.map(({ kind, name, meaning, count }) =>
      make(
        'li',
        { title: meaning },
        make('span', { class: `tok k-${kind}`, style: 'font-family: var(--mono); white-space: pre' }, ` ${name} `),
        make('span', { class: 'muted' }, `${count} · ${meaning}`),
      ),
    ),
  );
}

function kindOrder(token, colour) {
  return colour === 'way' || token.who < 0 ? token.way + 100 : token.who;
}
