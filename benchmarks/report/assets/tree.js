// The draft tree of a pass: the committed path on a straight line, what was rejected below it.

const SVG = 'http://www.w3.org/2000/svg';
const [ROW, BOX, LETTER, GAP, LONGEST] = [34, 24, 7.6, 30, 18];

function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function short(text) {
  const letters = [...visible(text)];
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join('')}…` : letters.join('');
}

/** Return the nodes of a tree with their children, the committed child first. */
function nodesOf(tree, sample, tokens, first, colour) {
  const nodes = tree.texts.map((text, id) => ({
    id,
    text,
    parent: tree.parents[id],
    children: [],
    at: tree.path.indexOf(id),
    pending: id === tree.pending,
    who: tree.sources.filter((_, bit) => (tree.who[id] >> bit) & 1),
  }));
  const top = [];
  for (const node of nodes) {
    node.on = node.at >= 0;
    node.token = node.on ? tokens[first + node.at] : null;
    node.kind = node.on ? kindOf(node.token, sample, colour).kind : null;
    (node.parent < 0 ? top : nodes[node.parent].children).push(node);
  }
  const committedFirst = (a, b) => Number(b.on) - Number(a.on) || Number(b.pending) - Number(a.pending);
  top.sort(committedFirst);
  for (const node of nodes) node.children.sort(committedFirst);
  return { nodes, top };
}

/** Give every node its depth and row: a first child shares its parent's row. */
function layOut(top) {
  let rows = 0;
  const place = (node, depth) => {
    node.depth = depth;
    node.row = node.children.length ? null : rows++;
    node.children.forEach((child) => place(child, depth + 1));
    node.row ??= node.children[0].row;
  };
  top.forEach((node) => place(node, 1));
  return rows;
}

function nodeWords(node) {
  const fate = node.on ? `committed, ${WAYS[node.token.way].name}` : 'rejected';
  const pending = node.pending ? ', the pending token' : '';
  const who = node.who.length && !(node.on && node.token.who < 0) ? `, drafted by ${node.who.join(' and ')}` : '';
  return `“${visible(node.text)}” ${fate}${pending}${who}`;
}

function label(node) {
  return `${node.on ? '✓ ' : ''}${node.pending ? '● ' : ''}${short(node.text)}`;
}

/** Return the picture of a tree. */
function treePicture({ nodes, top }, before, words) {
  const rows = layOut(top);
  const depths = Math.max(...nodes.map((node) => node.depth));
  const root = `…${short(before)}`;
  const width = (text) => [...text].length * LETTER + 16;
  const widths = Array.from({ length: depths + 1 }, (_, depth) =>
    depth ? Math.max(...nodes.filter((node) => node.depth === depth).map((node) => width(label(node)))) : width(root));
  const lefts = widths.map((_, depth) => 4 + widths.slice(0, depth).reduce((sum, each) => sum + each + GAP, 0));
  const middle = (row) => 4 + row * ROW + BOX / 2;
  const size = [lefts[depths] + widths[depths] + 6, rows * ROW + 6];
  const picture = draw('svg', { width: size[0], height: size[1], viewBox: `0 0 ${size.join(' ')}`, role: 'img', 'aria-label': words });
  const box = (x, y, text, classes, title) =>
    draw('g', { class: classes }, draw('title', {}, title),
      draw('rect', { x, y: y - BOX / 2, width: width(text), height: BOX, rx: 6 }),
      draw('text', { x: x + 8, y: y + 4.5 }, text));
  const edges = [];
  const boxes = [box(lefts[0], middle(top[0].row), root, 'node root', 'the text before this pass')];
  for (const node of nodes) {
    const from = node.parent < 0 ? null : nodes[node.parent];
    const start = [lefts[node.depth - 1] + (from ? width(label(from)) : widths[0]), middle(from ? from.row : top[0].row)];
    const end = [lefts[node.depth], middle(node.row)];
    const bend = end[0] - GAP / 2;
    const path = `M${start.join(' ')}H${bend - 8}C${bend} ${start[1]} ${bend} ${end[1]} ${end.join(' ')}`;
    edges.push(draw('path', { class: `edge ${node.on ? 'on' : ''}`, d: path }));
    const classes = `node ${node.on ? `on k-${node.kind}` : 'off'} ${node.pending ? 'pending' : ''}`;
    boxes.push(box(end[0], end[1], label(node), classes, nodeWords(node)));
  }
  // Committed edges last, so that no rejected one crosses over them.
  edges.sort((a, b) => Number(a.classList.contains('on')) - Number(b.classList.contains('on')));
  picture.append(...edges, ...boxes);
  return picture;
}

/** Return a tree as nested lists, for those who do not see the picture. */
function treeList(nodes) {
  const entry = (node) => make('li', {}, nodeWords(node), ...(node.children.length ? [treeList(node.children)] : []));
  return make('ul', {}, ...nodes.map(entry));
}
