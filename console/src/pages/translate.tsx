import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Fragment, useEffect, useMemo, useState, type ReactNode } from 'react';
import { call, sendCall, type Schemas } from '../api/client';
import { useParam } from '../router';
import { count } from '../ui/format';
import { findPath, layOutJSON, layOutText, partsOf, plain, type Line, type Part } from '../ui/json';
import { Badge, Button, Card, Copy, Empty, Failure, Field, PageHead, Select, sentence, Show, Text } from '../ui/parts';
import examples from './translate-examples.json';

type Dialect = keyof typeof examples;
type Kind = Schemas['TranslateBody']['kind'];
type Translation = Schemas['TranslationView'];
type Result = { input: string; kind: Kind; translations: Translation[] };

const titles: Record<string, string> = { 'openai-chat': 'Chat Completions', 'openai-responses': 'Responses', anthropic: 'Messages', gemini: 'Gemini', converse: 'Converse' };
const titleOf = (dialect: string) => titles[dialect] ?? dialect;
const dialects = Object.keys(examples) as Dialect[];
const kinds: Kind[] = ['request', 'response', 'stream'];
const isExample = (text: string) => dialects.some((d) => kinds.some((k) => examples[d][k] === text));

// useLater returns a value when it has not changed for a moment.
function useLater<T>(value: T): T {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), 300);
    return () => clearTimeout(timer);
  }, [value]);
  return late;
}

export function TranslatePage() {
  const [from, setFrom] = useParam('from', 'anthropic');
  const [what, setWhat] = useParam('kind', 'request');
  const [model, setModel] = useParam('model');
  const dialect = dialects.find((d) => d === from) ?? 'anthropic';
  const kind = kinds.find((k) => k === what) ?? 'request';
  const example = examples[dialect][kind];
  const [text, setText] = useState(example);
  // An example follows the choice of the dialect. A text that somebody has written stays.
  useEffect(() => setText((now) => (isExample(now) ? example : now)), [example]);
  const input = useLater(text);
  const body = { dialect, kind, body: input, ...(model && kind === 'request' ? { model } : {}) };
  const c = call('post', '/api/v1/translate', { body });
  const query = useQuery({
    queryKey: ['/api/v1/translate', body],
    queryFn: async ({ signal }): Promise<Result> => ({ input, kind, ...(await sendCall(c, signal) as Schemas['TranslationList']) }),
    enabled: input.trim() !== '',
    placeholderData: keepPreviousData,
    staleTime: Infinity,
    gcTime: 0, // the text may be private
    retry: false,
  });
  return (
    <>
      <PageHead title="Translate" />
      <Card title="Input" calls={[c]} wide actions={
        <>
          <Button disabled={text === example} onClick={() => setText(example)}>Example</Button>
          <Button disabled={text === ''} onClick={() => setText('')}>Clear</Button>
        </>
      }>
        <div className="filters">
          <Select label="Dialect" value={dialect} set={setFrom} choices={dialects.map((d) => ({ value: d, label: titleOf(d) }))} />
          <Select label="Kind" value={kind} set={setWhat} choices={kinds} />
          {kind === 'request' && <Text label="Model at the upstream" value={model} set={setModel} placeholder="that of the request" maxLength={200} />}
        </div>
        <Field label={titleOf(dialect) + ' ' + kind} hint="The gateway translates it. Nothing is stored or sent to a provider.">
          {(id, hintId) => <textarea id={id} aria-describedby={hintId} rows={14} spellCheck={false} autoComplete="off" value={text} onChange={(e) => setText(e.target.value)} />}
        </Field>
      </Card>
      {input.trim() === ''
        ? <Empty title="Nothing to translate"><p>Paste a {kind} in the {titleOf(dialect)} dialect, or start from the example.</p></Empty>
        : <Show query={query} what="the translations">{(r) => <Results result={r} dialect={dialect} model={body.model} />}</Show>}
    </>
  );
}

const layOut = (text: string, kind: Kind) => (kind === 'stream' ? undefined : layOutJSON(text)) ?? layOutText(text);

function Results({ result: { input, kind, translations }, dialect, model }: { result: Result; dialect: Dialect; model?: string }) {
  const lines = useMemo(() => layOut(input, kind), [input, kind]);
  const known = useMemo(() => partsOf(lines), [lines]);
  const errors = new Set(translations.map((t) => t.error?.message));
  const [error] = errors;
  if (errors.size === 1 && error && translations.every((t) => t.losses.length === 0)) {
    return <Failure error={new Error(`this is no ${titleOf(dialect)} ${kind} that can be translated: ${error}`)} />;
  }
  return (
    <>
      <p className="hint legend">In the translations, <mark>values</mark> and <span className="renamed">names</span> are marked that the input does not have.</p>
      <div className="translations">
        {translations.map((t) => <Output key={t.dialect} t={t} kind={kind} known={known} command={commandLine(dialect, t.dialect, kind, model)} />)}
      </div>
      <Lost lines={lines} translations={translations} />
    </>
  );
}

// commandLine returns the command that does the same.
function commandLine(from: string, to: string, kind: Kind, model?: string) {
  const quoted = model && " --model '" + model.replaceAll("'", "'\\''") + "'";
  return `isogloss translate --from ${from} --to ${to}${kind === 'request' ? '' : ' --kind ' + kind}${quoted ?? ''} ${kind === 'stream' ? 'stream.txt' : kind + '.json'}`;
}

function Output({ t, kind, known, command }: { t: Translation; kind: Kind; known: ReturnType<typeof partsOf>; command: string }) {
  const lines = useMemo(() => layOut(t.text ?? '', kind), [t.text, kind]);
  const state = t.error ? 'refused' : t.losses.length === 0 ? 'exact' : t.losses.length + (t.losses.length > 1 ? ' losses' : ' loss');
  return (
    <Card title={titleOf(t.dialect)} actions={<><Badge>{state}</Badge>{t.text && <Copy text={t.text} />}</>}>
      <div className="losses">
        {t.error && <div className="notice bad"><p>{sentence(t.error.message)}</p></div>}
        {t.losses.length > 0 && (
          <ul aria-label={'Losses in ' + titleOf(t.dialect)}>
            {t.losses.slice(0, mostLosses).map((l, i) => <li key={i}><Badge>{l.verdict}</Badge> <code>{l.path}</code>: {l.note} <span className="hint">({l.code})</span></li>)}
          </ul>
        )}
        {t.losses.length > mostLosses && <p className="hint">{count(t.losses.length - mostLosses)} further losses are not shown. The API call has them.</p>}
        {!t.error && t.losses.length === 0 && <p className="hint">Nothing is lost.</p>}
      </div>
      {t.text ? <Code label={titleOf(t.dialect) + ' ' + kind} lines={lines} mark={(p) => p.kind !== 'plain' && !known[p.kind].has(plain(p.text))} /> : <p className="hint">No text.</p>}
      <details className="source">
        <summary>Command</summary>
        <div className="source-call"><code>{command}</code><Copy text={command} label="Copy the command" /></div>
        {t.path && <p className="hint">Sent to <code>{t.path}</code> of the provider.</p>}
      </details>
    </Card>
  );
}

const mostLines = 1500;
const mostLosses = 100;

// breakable lets a long line of a stream break after commas.
const breakable = (text: string): ReactNode => (text.includes(',') ? text.split(/(?<=,)/).map((part, i) => <Fragment key={i}>{part}{part.endsWith(',') && <wbr />}</Fragment>) : text);

// Code shows lines of JSON or of a stream, with marked parts.
function Code({ label, lines, mark }: { label: string; lines: Line[]; mark: (p: Part) => boolean }) {
  return (
    <div>
      <pre className="translation" role="region" aria-label={label} tabIndex={0}>
        {lines.slice(0, mostLines).map((line, i) => (
          <code key={i}>
            {line.parts.map((p, j) => (!mark(p) ? <Fragment key={j}>{breakable(p.text)}</Fragment> : p.kind === 'name' ? <span key={j} className="renamed">{p.text}</span> : <mark key={j}>{p.text}</mark>))}
            {'\n'}
          </code>
        ))}
      </pre>
      {lines.length > mostLines && <p className="hint">{count(lines.length - mostLines)} further lines are not shown. A copy has them.</p>}
    </div>
  );
}

// lossesByPath returns notes for the paths of the input that losses name.
function lossesByPath(lines: Line[], translations: Translation[]) {
  const known = new Set(lines.map((l) => l.path));
  const found = new Map<string, Map<string, string[]>>();
  for (const t of translations) {
    for (const l of t.losses) {
      const at = findPath(known, l.path);
      if (!at) continue;
      const notes = found.get(at.path) ?? new Map<string, string[]>();
      const what = `${at.rest && at.rest + ' '}${l.verdict} (${l.code})`;
      notes.set(what, [...new Set([...(notes.get(what) ?? []), titleOf(t.dialect)])]);
      found.set(at.path, notes);
    }
  }
  return found;
}

// Lost shows the parts of the input that are lost, with the lines around them.
function Lost({ lines, translations }: { lines: Line[]; translations: Translation[] }) {
  const shown = useMemo(() => {
    const notes = lossesByPath(lines, translations);
    const known = new Set(notes.keys());
    const at = new Map<number, [string, string[]][]>(); // notes by line
    const below = new Set<number>();
    const near = new Set<number>();
    lines.forEach((line, i) => {
      const path = findPath(known, line.path)?.path;
      if (path === undefined) return;
      below.add(i);
      const found = notes.get(path);
      if (line.path !== path || !found || at.size >= mostLosses) return;
      notes.delete(path); // the first line has the note
      at.set(i, [...found]);
      for (let n = i - 2; n <= i + 6; n++) near.add(n);
    });
    return { at, below, near };
  }, [lines, translations]);
  if (shown.at.size === 0) return null;
  const rows: ReactNode[] = [];
  let left = 0;
  lines.forEach((line, i) => {
    if (!shown.near.has(i)) {
      left++;
      return;
    }
    if (left > 0) rows.push(<code key={'gap' + i} className="gap">⋯ {count(left)} {left > 1 ? 'lines' : 'line'}</code>);
    left = 0;
    const notes = shown.at.get(i) ?? [];
    const dropped = notes.some(([what]) => !what.includes('approximated'));
    rows.push(
      <code key={i} className={notes.length > 0 ? (dropped ? 'dropped' : 'approximated') : shown.below.has(i) ? 'below' : undefined}>
        {line.parts.map((p) => p.text).join('')}
        {notes.length > 0 && <span className="line-note"> ← {notes.map(([what, names]) => what + ' for ' + names.join(', ')).join('; ')}</span>}
      </code>,
    );
  });
  if (left > 0) rows.push(<code key="end" className="gap">⋯ {count(left)} {left > 1 ? 'lines' : 'line'}</code>);
  return <Card title="What is lost of the input" wide><pre className="translation lines" role="region" aria-label="Input with losses" tabIndex={0}>{rows}</pre></Card>;
}
