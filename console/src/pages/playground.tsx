import { useQuery } from '@tanstack/react-query';
import { memo, useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from 'react';
import { ApiError, call, fetchCall, send, type Schemas } from '../api/client';
import { useGet, useModels } from '../api/hooks';
import { callsOf, errorOf, EventReader, FrameReader, newAnswer, readBody, readEvent, type Answer, type Dialect } from '../playground/answers';
import { build, dialects, readTools, titles, toolExample, type Image, type Input, type Request, type Settings, type ToolResult, type Turn } from '../playground/dialects';
import { languagesFor, snippet } from '../playground/snippets';
import { Link, useParam } from '../router';
import { useCan, useSession } from '../session';
import { count, dollars, seconds } from '../ui/format';
import { Badge, Button, Card, Copy, Empty, Facts, Field, PageHead, Select, sentence, Show, Text } from '../ui/parts';

const maxImage = 4 << 20;
const maxRequest = 15 << 20;
const mostRaw = 100_000; // characters of the raw bytes that are shown

// Exchange is a turn with what the page knows of its request.
type Exchange = Turn & {
  n: number;
  request: Request;
  state: 'running' | 'answered' | 'stopped' | 'failed';
  raw: string;
  status: number;
  id: string;
  target: string;
  fidelity: string;
  took: number; // seconds
};

// StorelessPlayground says what is missing on a gateway without a store.
export function StorelessPlayground() {
  return (
    <>
      <PageHead title="Playground" />
      <div className="notice">
        <p><strong>This gateway has no store.</strong> The playground runs requests as a key, which pays for them, and keys are kept in a store. Add this to the configuration and restart:</p>
        <pre>store: sqlite</pre>
        <p>Then create an operator's key with <code>isogloss keys create --role owner --name me -c isogloss.yaml</code>, sign in here, and create a client's key on the page Keys and people. Programs on this machine can use the client port without a key.</p>
      </div>
    </>
  );
}

export function PlaygroundPage() {
  const { who } = useSession();
  const keys = useGet('/api/v1/keys', { query: { limit: 1000 } });
  const usable = (keys.data?.keys ?? []).filter((k) => !k.role && k.state === 'active' && (!k.id.startsWith('person_') || k.id === who.key.id));
  return (
    <>
      <PageHead title="Playground" />
      <Show query={keys} what="keys">
        {() => (usable.length
          ? <Chat keys={usable} />
          : <Empty title="There is no key to run requests as"><p>A request is charged to a client's key. <Link to="/console/keys?new=1">Create one</Link>, then come back.</p></Empty>)}
      </Show>
    </>
  );
}

// turnsOf returns the turns that the next request repeats. Of a stopped answer only the text is sure to
// be whole.
const turnsOf = (list: Exchange[]): Turn[] => list.filter((e) => (e.state === 'answered' || e.state === 'stopped') && e.answer.blocks.length > 0).map((e) => ({
  dialect: e.dialect, input: e.input,
  answer: e.state === 'answered' ? e.answer : { ...e.answer, native: [], blocks: e.answer.blocks.filter((b) => b.kind === 'text') },
})).filter((t) => t.answer.blocks.length > 0);

function Chat({ keys }: { keys: Schemas['KeyView'][] }) {
  const can = useCan();
  const { who } = useSession();
  const models = useModels(can('list-models'));
  const [keyParam, setKey] = useParam('key');
  const [modelParam, setModel] = useParam('model');
  const [dialectParam, setDialect] = useParam('dialect', 'openai-chat');
  const key = keys.find((k) => k.id === keyParam) ?? keys[0]!;
  const names = models.data?.models.map((m) => m.model) ?? key.models.filter((m) => !m.endsWith('*'));
  const model = modelParam || names[0] || '';
  const dialect = dialects.find((d) => d === dialectParam) ?? 'openai-chat';
  const [stream, setStream] = useState(true);
  const [system, setSystem] = useState('');
  const [maxTokens, setMaxTokens] = useState('1024');
  const [toolText, setToolText] = useState('');
  const [list, setList] = useState<Exchange[]>([]);
  const abort = useRef<AbortController>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const { tools, wrong } = readTools(toolText);
  const settings: Settings = { dialect, model, stream, system, maxTokens: Math.max(1, Math.floor(Number(maxTokens)) || 1024), tools };
  const running = list.at(-1)?.state === 'running';
  const last = list.at(-1);
  const calls = last?.state === 'answered' ? callsOf(last.answer) : [];
  const turns = turnsOf(list);
  const runOne = (input: Input) => {
    const request = build(settings, turns, input);
    const e: Exchange = { n: list.length, dialect, input, answer: newAnswer(), request, state: 'running', raw: '', status: 0, id: '', target: '', fidelity: '', took: 0 };
    const control = new AbortController();
    abort.current = control;
    setList((now) => [...now, e]);
    void runExchange(key.id, e, control.signal, (now) => setList((all) => all.map((o) => (o.n === now.n ? now : o))));
  };
  const check = (input: Input) => {
    if (!model) return 'Choose a model.';
    if (wrong) return wrong;
    return JSON.stringify(build(settings, turns, input)).length > maxRequest ? 'The request is larger than 15 MB. Send fewer images, or clear the conversation.' : undefined;
  };
  const clear = () => {
    abort.current?.abort();
    setList([]);
  };
  return (
    <>
      <Card title="Request" wide actions={<Button disabled={list.length === 0} onClick={clear}>Clear the conversation</Button>}>
        <div className="filters">
          <Select label="Run as the key" value={key.id} set={setKey} choices={keys.map((k) => ({ value: k.id, label: (k.name || k.id) + (k.org ? ' (' + k.org + ')' : '') }))} />
          <Text label="Model" value={model} set={setModel} list={names} maxLength={512} />
          <Select label="Dialect" value={dialect} set={setDialect} choices={dialects.map((d) => ({ value: d, label: titles[d] }))} />
          <Text label="Output limit, tokens" value={maxTokens} set={setMaxTokens} type="number" />
        </div>
        <label className="check"><input type="checkbox" checked={stream} onChange={(e) => setStream(e.target.checked)} /> Stream the answer</label>
        <p className="hint">The key pays for the requests, and its limits and scopes hold. Every run is in the audit log, without its text.</p>
        <details className="more-settings">
          <summary>System prompt and tools{tools.length > 0 && ' (' + count(tools.length) + ')'}</summary>
          <Field label="System prompt">{(id) => <textarea id={id} rows={3} className="prose" value={system} onChange={(e) => setSystem(e.target.value)} />}</Field>
          <Field label="Tools, as JSON" hint="A list of objects with name, description and parameters (JSON Schema). The page writes them in the form of the dialect, and asks for the results.">
            {(id, hintId) => <textarea id={id} aria-describedby={hintId} rows={7} spellCheck={false} value={toolText} onChange={(e) => setToolText(e.target.value)} />}
          </Field>
          <div className="actions"><Button disabled={toolText === toolExample} onClick={() => setToolText(toolExample)}>Example tool</Button></div>
          {wrong && <p className="bad-text" role="alert">{wrong}</p>}
        </details>
      </Card>
      <div className="conversation" role="log" aria-label="Conversation" aria-live="off">
        {list.map((e) => <ExchangeView key={e.n} e={e} />)}
      </div>
      {running
        ? <p className="stop"><Button kind="danger" onClick={() => abort.current?.abort()}>Stop</Button> <span className="hint" role="status">The model answers…</span></p>
        : calls.length > 0 ? <Results key={'r' + list.length} calls={calls.map(({ id, name, text }) => ({ id, name, text }))} check={check} run={runOne} />
          : <Composer key={'m' + list.length} check={check} run={runOne} />}
      <SameAs dialect={dialect} url={clientURL(who.client_url)} request={last ? last.request : build(settings, [], { text: 'Hello', images: [] })} of={last?.dialect} />
    </>
  );
}

// clientURL returns the address of the client port. An unspecified address is every address of the node.
function clientURL(text = ''): string {
  const url = text || location.protocol + '//' + location.hostname + ':8080';
  return url.replace(/\/\/(0\.0\.0\.0|\[::\])(?=[:/]|$)/, '//' + location.hostname);
}

// runExchange sends a request and reports the answer as it arrives, at most once per frame.
async function runExchange(key: string, first: Exchange, signal: AbortSignal, report: (e: Exchange) => void) {
  let e = first;
  let frame = 0;
  const answer = e.answer;
  const began = performance.now();
  const show = () => {
    frame = 0;
    e = { ...e, answer: { ...answer, blocks: answer.blocks.map((b) => ({ ...b })) }, took: (performance.now() - began) / 1000 };
    report(e);
  };
  try {
    const response = await fetchCall(call('post', '/api/v1/keys/{key}/run', { path: { key }, body: { path: e.request.path, request: JSON.stringify(e.request.body) } }), signal);
    const h = response.headers;
    e = { ...e, status: response.status, id: h.get('x-request-id') ?? h.get('request-id') ?? h.get('x-amzn-requestid') ?? '', target: h.get('isogloss-target') ?? '', fidelity: h.get('isogloss-fidelity') ?? '' };
    const reader = response.body!.getReader();
    const media = h.get('content-type') ?? '';
    const frames = /^application\/vnd\.amazon\.eventstream/.test(media) ? new FrameReader() : undefined;
    const events = frames || /^text\/event-stream/.test(media) ? new EventReader() : undefined;
    const decoder = new TextDecoder();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const text = frames ? frames.read(part.value).map((data) => 'data: ' + data + '\n\n').join('') : decoder.decode(part.value, { stream: true });
      e = { ...e, raw: e.raw + text };
      for (const data of events?.read(text) ?? []) readEvent(e.dialect, answer, data);
      frame ||= requestAnimationFrame(show);
    }
    if (!response.ok) answer.error = errorText(e.raw) || response.statusText;
    else if (!events) readBody(e.dialect, answer, e.raw);
    e = { ...e, state: answer.error ? 'failed' : 'answered' };
  } catch (problem) {
    if (!signal.aborted) answer.error = problem instanceof ApiError ? problem.message : 'the connection to the gateway was lost';
    e = { ...e, state: signal.aborted ? 'stopped' : 'failed' };
  }
  cancelAnimationFrame(frame);
  show();
}

function errorText(raw: string): string {
  try {
    return errorOf(JSON.parse(raw));
  } catch {
    return raw.slice(0, 500);
  }
}

// onCtrlEnter sends a form from the keyboard.
const onCtrlEnter = (run: () => void) => (e: KeyboardEvent) => {
  if (e.key !== 'Enter' || !(e.ctrlKey || e.metaKey)) return;
  e.preventDefault();
  run();
};

function Composer({ check, run }: { check: (i: Input) => string | undefined; run: (i: Input) => void }) {
  const [text, setText] = useState('');
  const [images, setImages] = useState<Image[]>([]);
  const [wrong, setWrong] = useState('');
  const sendIt = () => {
    const input = { text, images };
    const problem = text.trim() || images.length ? check(input) : 'Write a message.';
    setWrong(problem ?? '');
    if (!problem) run(input);
  };
  const addImages = async (files: FileList | null) => {
    const found: Image[] = [];
    for (const file of files ?? []) {
      if (file.size > maxImage) {
        setWrong(file.name + ' is larger than 4 MB.');
        return;
      }
      found.push(await readImage(file));
    }
    setWrong('');
    setImages((now) => [...now, ...found]);
  };
  return (
    <Card title="Message" wide>
      <Field label="Your message" hint="Ctrl+Enter sends it.">
        {(id, hintId) => <textarea id={id} aria-describedby={hintId} rows={4} className="prose" value={text} onChange={(e) => setText(e.target.value)} onKeyDown={onCtrlEnter(sendIt)} />}
      </Field>
      {images.length > 0 && <Images list={images} remove={(i) => setImages(images.filter((_, at) => at !== i))} />}
      {wrong && <p className="bad-text" role="alert">{wrong}</p>}
      <div className="composer-actions">
        <Field label="Add images">{(id) => <input id={id} type="file" accept="image/png,image/jpeg,image/gif,image/webp" multiple onChange={(e) => { void addImages(e.target.files); e.target.value = ''; }} />}</Field>
        <Button kind="primary" onClick={sendIt}>Send</Button>
      </div>
    </Card>
  );
}

function readImage(file: File): Promise<Image> {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done({ name: file.name, media: file.type, data: String(reader.result).replace(/^.*?,/, '') });
    reader.onerror = () => fail(new Error('the file cannot be read'));
    reader.readAsDataURL(file);
  });
}

function Images({ list, remove }: { list: Image[]; remove?: (i: number) => void }) {
  return (
    <ul className="images">
      {list.map((m, i) => <li key={i}><img src={`data:${m.media};base64,${m.data}`} alt={m.name} />{remove && <Button aria-label={'Remove ' + m.name} onClick={() => remove(i)}>Remove</Button>}</li>)}
    </ul>
  );
}

// Results asks for the results of the tools that the model has called.
function Results({ calls, check, run }: { calls: ToolResult[]; check: (i: Input) => string | undefined; run: (i: Input) => void }) {
  const [texts, setTexts] = useState(calls.map(() => ''));
  const [wrong, setWrong] = useState('');
  const sendIt = () => {
    const input = { results: calls.map(({ id, name }, i) => ({ id, name, text: texts[i]! })) };
    const problem = check(input);
    setWrong(problem ?? '');
    if (!problem) run(input);
  };
  return (
    <Card title={calls.length > 1 ? 'Results of the tools' : 'Result of the tool'} wide>
      {calls.map((c, i) => (
        <Field key={i} label={'Result of ' + c.name} hint={'Called with ' + c.text}>
          {(id, hintId) => <textarea id={id} aria-describedby={hintId} rows={3} value={texts[i]} onChange={(e) => setTexts(texts.map((t, at) => (at === i ? e.target.value : t)))} onKeyDown={onCtrlEnter(sendIt)} />}
        </Field>
      ))}
      {wrong && <p className="bad-text" role="alert">{wrong}</p>}
      <div className="form-actions"><Button kind="primary" onClick={sendIt}>Send the results</Button></div>
    </Card>
  );
}

const ExchangeView = memo(function ExchangeView({ e }: { e: Exchange }) {
  const body = useMemo(() => JSON.stringify(e.request.body, null, 2), [e.request]);
  const title = e.n + 1 + '. ' + titles[e.dialect];
  return (
    <Card title={title} wide actions={<><Badge tone={e.state === 'stopped' ? 'warn' : undefined}>{e.state}</Badge>{e.status > 0 && <span className="hint">status {e.status}</span>}</>}>
      <div className="turn">
        <div className="rendered">
          <InputView input={e.input} />
          <AnswerView answer={e.answer} />
          {e.state === 'failed' && <div className="notice bad" role="alert"><p>{sentence(e.answer.error)}</p><p className="hint">The next request does not repeat this turn.</p></div>}
          {e.state === 'stopped' && <p className="hint">Stopped. The key pays for what the model has written.</p>}
        </div>
        <Raw label={'Raw bytes of answer ' + (e.n + 1)} text={e.raw} hint={e.dialect === 'converse' && e.raw.startsWith('data: ') ? 'The stream has binary frames. Each is shown as JSON, with the name of its event.' : undefined} />
      </div>
      <Accounting e={e} />
      <details className="source">
        <summary>Request</summary>
        <div className="source-call"><code>POST {e.request.path}</code><Copy text={body} /></div>
        <Raw label={'Request ' + (e.n + 1)} text={body} />
      </details>
    </Card>
  );
});

function InputView({ input }: { input: Input }) {
  if ('results' in input) return <>{input.results.map((r, i) => <Block key={i} title={'Result of ' + r.name} kind="result">{r.text}</Block>)}</>;
  return <Block title="You" kind="you">{input.text}{input.images.length > 0 && <Images list={input.images} />}</Block>;
}

function AnswerView({ answer }: { answer: Answer }) {
  return (
    <>
      {answer.blocks.map((b, i) => (
        <Block key={i} title={b.kind === 'tool' ? 'Calls ' + b.name : b.kind === 'text' ? 'Answer' : 'Reasoning'} kind={b.kind}>{b.text}</Block>
      ))}
    </>
  );
}

// Block shows text as text: line breaks stay, and nothing in it is HTML.
function Block({ title, kind, children }: { title: string; kind: string; children: ReactNode }) {
  return <div className={'block ' + kind}><p className="block-title">{title}</p><div className="block-text">{children}</div></div>;
}

function Raw({ label, text, hint }: { label: string; text: string; hint?: string }) {
  return (
    <div className="raw">
      {hint && <p className="hint">{hint}</p>}
      <pre role="region" aria-label={label} tabIndex={0}>{text.length > mostRaw ? '…' + text.slice(-mostRaw) : text}</pre>
      {text.length > mostRaw && <p className="hint">The last {count(mostRaw)} of {count(text.length)} characters are shown.</p>}
    </div>
  );
}

// Accounting shows usage, cost and losses of a turn. The ledger has them a moment after its end.
function Accounting({ e }: { e: Exchange }) {
  const can = useCan();
  const row = useQuery({
    queryKey: ['/api/v1/requests', e.id],
    queryFn: () => send('get', '/api/v1/requests/{request}', { path: { request: e.id } }),
    enabled: e.id !== '' && e.state !== 'running' && can('get-request'),
    retry: (n, error) => n < 20 && error instanceof ApiError && error.status === 404, // it is not in the ledger yet
    retryDelay: 500,
    staleTime: Infinity,
  });
  if (!e.id) return null;
  const found = row.data;
  const fidelity = found?.fidelity || e.fidelity;
  const cost = !can('get-request') ? 'Your role may not read the ledger' : found ? (found.cost ? dollars(found.cost) + (found.estimated ? ' (estimated)' : '') : 'not known') : row.error ? 'not in the ledger' : e.state === 'running' ? '' : '…';
  return (
    <Facts rows={[
      ['Tokens', Object.entries(e.answer.usage).map(([name, n]) => count(n) + ' ' + name).join(', ')],
      ['Cost', cost],
      ['Fidelity', fidelity && <Fidelity text={fidelity} />],
      ['Losses', found?.losses?.length ? <ul className="plain-list">{found.losses.map((l, i) => <li key={i}><code>{l.path}</code> <span className="hint">({l.code})</span></li>)}</ul> : ''],
      ['Target', e.target],
      ['Time', e.took > 0 && e.state !== 'running' && seconds(e.took)],
      ['Finish', e.answer.finish],
      ['Exchange', can('get-request') ? <Link to={'/console/exchanges/' + e.id}><code>{e.id}</code></Link> : <code>{e.id}</code>],
    ]} />
  );
}

// Fidelity shows the header Isogloss-Fidelity: a verdict, numbers, and the codes of the losses.
function Fidelity({ text }: { text: string }) {
  const codes = /codes="([^"]*)"/.exec(text)?.[1] ?? '';
  const fields = /fields="([^"]*)"/.exec(text)?.[1] ?? '';
  return <><Badge>{text.split(';')[0]!}</Badge> {codes}{fields && ': ' + fields}</>;
}

// SameAs shows the request as a program of the client port.
function SameAs({ dialect, of, url, request }: { dialect: Dialect; of?: Dialect; url: string; request: Request }) {
  const [language, setLanguage] = useState('curl');
  const choices = languagesFor(of ?? dialect, url);
  const chosen = choices.find((l) => l === language) ?? 'curl';
  const text = useMemo(() => snippet(chosen, of ?? dialect, url, request), [chosen, of, dialect, url, request]);
  return (
    <Card title="The same as a program" wide actions={<Copy text={text} />}>
      <div className="filters"><Select label="Language" value={chosen} set={setLanguage} choices={choices} /></div>
      <p className="hint">It sends {of ? 'the last request' : 'a first request'} to the client port. Set <code>ISOGLOSS_KEY</code> to the text of the key.{choices.length < 4 && ' AWS\'s SDKs send a key over HTTPS only, so this address has no program for them.'}</p>
      <Raw label="Program" text={text} />
    </Card>
  );
}
