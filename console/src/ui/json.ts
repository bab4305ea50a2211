// Layout of JSON and of event streams for people. It works on the text, not on parsed values, so that
// long numbers, the order and repeated names stay as they are.

export type Part = { text: string; kind: 'name' | 'value' | 'plain' };
export type Line = { parts: Part[]; path: string };

const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

const isJSON = (text: string) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

// layOutJSON returns the lines of a JSON text, each with the path of its member, such as
// messages[2].content. It returns nothing for other texts.
export function layOutJSON(text: string): Line[] | undefined {
  if (!isJSON(text)) return undefined;
  const lines: Line[] = [];
  const open: { path: string; at: number }[] = []; // the objects (at: -1) and arrays around the token
  let line: Line | undefined;
  let path = '';
  const begin = () => {
    line = { parts: [{ text: '  '.repeat(open.length), kind: 'plain' }], path };
    lines.push(line);
  };
  const add = (part: string, kind: Part['kind'] = 'plain') => {
    const top = open.at(-1);
    if (!line) {
      if (top && top.at >= 0) path = `${top.path}[${top.at}]`;
      begin();
    }
    line?.parts.push({ text: part, kind });
  };
  const list = text.match(tokens) ?? [];
  for (let i = 0; i < list.length; i++) {
    const token = list[i]!;
    const top = open.at(-1);
    if (token === '{' || token === '[') {
      add(token);
      if (list[i + 1] === '}' || list[i + 1] === ']') {
        add(list[++i]!);
        continue;
      }
      open.push({ path, at: token === '[' ? 0 : -1 });
      line = undefined;
    } else if (token === '}' || token === ']') {
      path = open.pop()?.path ?? '';
      begin();
      add(token);
    } else if (token === ',') {
      add(token);
      if (top && top.at >= 0) top.at++;
      line = undefined;
    } else if (list[i + 1] === ':' && top?.at === -1) {
      path = (top.path && top.path + '.') + String(JSON.parse(token));
      add(token, 'name');
      add(': ');
      i++;
    } else {
      add(token, 'value');
    }
  }
  return lines;
}

// layOutText returns the lines of an event stream, or of any other text.
export function layOutText(text: string): Line[] {
  return text.trimEnd().split('\n').map((line) => {
    const [, field = '', data = ''] = /^(data: ?)(.*)$/.exec(line) ?? [];
    if (!field || !isJSON(data)) return { parts: [{ text: line, kind: 'plain' }], path: '' };
    const parts: Part[] = [{ text: field, kind: 'plain' }];
    const list = data.match(tokens) ?? [];
    list.forEach((token, i) => {
      const kind = /^[{}[\],:]$/.test(token) ? 'plain' : list[i + 1] === ':' ? 'name' : 'value';
      const last = parts.at(-1);
      if (kind === 'plain' && last?.kind === 'plain') last.text += token;
      else parts.push({ text: token, kind });
    });
    return { parts, path: '' };
  });
}

// partsOf collects the names and values of lines. Strings are compared without their escapes.
export function partsOf(lines: Line[]): { name: Set<string>; value: Set<string> } {
  const all = { name: new Set<string>(), value: new Set<string>() };
  for (const { parts } of lines) for (const p of parts) if (p.kind !== 'plain') all[p.kind].add(plain(p.text));
  return all;
}

// plain is a token without the escapes of a string.
export const plain = (token: string) => (token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token);

const lastStep = /(\.[^.[\]]*|\[\d+\]|^[^.[\]]+)$/;

// findPath returns the longest beginning of a path that is known, and the rest.
export function findPath(known: Set<string>, path: string): { path: string; rest: string } | undefined {
  for (let at = path; lastStep.test(at); at = at.replace(lastStep, '')) {
    if (known.has(at)) return { path: at, rest: path.slice(at.length).replace(/^\./, '') };
  }
  return undefined;
}
