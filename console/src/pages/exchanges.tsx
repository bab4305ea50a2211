import { useState, type FormEvent } from 'react';
import type { Schemas } from '../api/client';
import { useGet, usePages } from '../api/hooks';
import { rateOf, useTail, type Tail } from '../api/tail';
import { go, Link, setParams, useLocation, useParam } from '../router';
import { useCan } from '../session';
import { amountOf, between, compact, count, dollars, nanos, seconds, tenant, tenantIDs, tokenSum, unitsIn } from '../ui/format';
import { Badge, Button, Card, Copy, Empty, Facts, More, PageHead, Select, Show, Table, Text, Time } from '../ui/parts';
import { Filter, RangePicker, useRange } from '../ui/range';
import { reasons } from './refused';

type Request = Schemas['RequestView'];
type Attempt = Schemas['AttemptView'];

export const outcomes: Record<Request['outcome'], string> = {
  answered: 'the client got the whole response',
  left: 'the client disconnected',
  failed: 'no target gave a response',
  refused: 'a limit or a rule refused it',
  lost: 'the response was cut',
  cached: 'answered from the cache',
  queued: 'the vendor goes on in the background',
};

const known = (text: string): text is Request['outcome'] => text in outcomes;

const fidelities = ['exact', 'approximated', 'dropped', 'refused'] as const;

const texts = ['org', 'team', 'key', 'person', 'user', 'tag', 'model', 'target', 'min_cost', 'min_took'] as const;
const filterNames = [...texts, 'outcome', 'fidelity', 'status'];

// useFilters returns the filters in the address, as the API has them.
function useFilters() {
  const { query } = useLocation();
  const value = (n: string) => query.get(n) || undefined;
  const outcome = query.get('outcome') ?? '';
  return {
    ...Object.fromEntries(texts.map((n) => [n, value(n)])) as { [n in (typeof texts)[number]]?: string },
    outcome: known(outcome) ? outcome : undefined,
    fidelity: fidelities.find((f) => f === query.get('fidelity')),
    status: Number(query.get('status')) || undefined,
  };
}

export function ExchangesPage() {
  const { query } = useLocation();
  const [live, setLive] = useParam('live');
  const outcome = query.get('outcome') ?? '';
  const chosen = filterNames.filter((n) => query.get(n)).length;
  const [folded, setFolded] = useState(true);
  const known = useKnown(query.get('org') ?? '');
  return (
    <>
      <PageHead title="Exchanges">
        <label className="check"><input type="checkbox" checked={live !== ''} onChange={(e) => setLive(e.target.checked ? '1' : '')} /> Live</label>
      </PageHead>
      <div className={folded && chosen === 0 ? 'filters folded' : 'filters'} role="search" aria-label="Filter exchanges">
        {!live && <RangePicker initial="24h" />}
        {folded && chosen === 0 && <Button className="button plain unfold" onClick={() => setFolded(false)}>Show filters</Button>}
        <Filter name="model" label="Model" list={known.models} />
        <Filter name="target" label="Target" list={known.targets} />
        <Filter name="key" label="Key" list={known.keys} />
        <Filter name="person" label="Person" />
        <Filter name="org" label="Organisation" list={known.orgs} />
        {query.get('org') && <Filter name="team" label="Team" list={known.teams} />}
        <Select label="Outcome" value={outcome} set={(v) => setParams({ outcome: v })} choices={[{ value: '', label: 'all' }, ...Object.keys(outcomes)]} />
        <Select label="Fidelity" value={query.get('fidelity') ?? ''} set={(v) => setParams({ fidelity: v })} choices={[{ value: '', label: 'all' }, ...fidelities]} />
        <Filter name="status" label="Status" />
        <Filter name="min_cost" label="Cost at least, $" />
        <Filter name="min_took" label="Took at least, s" />
        <Filter name="user" label="End user" />
        <Filter name="tag" label="Tag" />
        <OpenByID />
      </div>
      {live ? <Live /> : <Recorded />}
    </>
  );
}

// useKnown returns the names that filters offer, as far as the operator may see them.
function useKnown(org: string) {
  const can = useCan();
  const models = useGet('/api/v1/models', {}, { enabled: can('list-models') }).data?.models ?? [];
  const keys = useGet('/api/v1/keys', { query: { limit: 1000 } }, { enabled: can('list-keys') }).data?.keys ?? [];
  const orgs = useGet('/api/v1/orgs', { query: { limit: 1000 } }, { enabled: can('list-orgs') }).data?.orgs ?? [];
  const id = orgs.find((o) => o.id === org)?.id ?? orgs.find((o) => o.name === org)?.id ?? '';
  const teams = useGet('/api/v1/orgs/{org}/teams', { path: { org: id }, query: { limit: 1000 } }, { enabled: id !== '' && can('list-teams') }).data?.teams ?? [];
  const unique = (list: string[]) => [...new Set(list)].slice(0, 1000);
  const namesOf = (list: Schemas['TenantView'][]) => unique(list.map((t) => t.name || t.id));
  return {
    models: unique(models.map((m) => m.model)), targets: unique(models.flatMap((m) => m.targets.map((t) => t.target))),
    keys: unique(keys.filter((k) => !k.role).map((k) => k.name)), orgs: namesOf(orgs), teams: namesOf(id ? teams : []),
  };
}

// perPage is the number of requests that are read at once. A phone shows fewer, because each takes more of its height.
const perPage = () => (matchMedia('(max-width: 800px)').matches ? 25 : 50);

// Recorded is the ledger, page by page.
function Recorded() {
  const range = useRange('24h');
  const list = usePages('/api/v1/requests', { query: { from: range.from, to: range.to, ...useFilters(), limit: perPage() } });
  return (
    <Card title="Requests, newest first" calls={[list.call]} wide>
      <Show query={list} what="exchanges">
        {() => <><Rows rows={list.pages.flatMap((p) => p.requests)} /><More query={list} /></>}
      </Show>
    </Card>
  );
}

// Live is the newest requests. It holds a fixed number of rows, however many pass.
function Live() {
  const [paused, setPaused] = useState(false);
  const tail = useTail(useFilters(), !paused);
  return (
    <Card title="Requests as they end" calls={tail.data && [tail.data.call]} wide actions={<Button onClick={() => setPaused(!paused)}>{paused ? 'Continue' : 'Pause'}</Button>}>
      <Show query={tail} what="exchanges">
        {(t) => <><Passing tail={t} /><Rows rows={t.list.requests} live /></>}
      </Show>
    </Card>
  );
}

// Passing says in words what the rows of the tail do not show.
function Passing({ tail }: { tail: Tail }) {
  const rate = rateOf(tail);
  const newest = tail.list.requests[0]?.began;
  return (
    <p className="hint passing">
      {tail.list.next ? 'About ' : ''}<strong>{rate < 10 ? rate.toFixed(1) : count(Math.round(rate))} per second</strong>
      {newest && <>, the newest began {seconds(Math.max(0, (tail.at - Date.parse(newest)) / 1000))} before the last look</>}.{' '}
      {tail.skipped >= 1
        ? <>Only the newest {tail.list.requests.length} are shown: about {count(Math.round(tail.skipped))} have passed unseen since <Time at={new Date(tail.since).toISOString()} />.</>
        : 'None was skipped.'}
    </p>
  );
}

function Rows({ rows, live = false }: { rows: Request[]; live?: boolean }) {
  const { query } = useLocation();
  if (rows.length === 0) {
    const filtered = filterNames.some((n) => query.get(n));
    return (
      <Empty title={filtered ? 'No exchange matches the filters' : live ? 'No exchange in the last 15 minutes' : 'No exchange in this time'}>
        <p>{filtered ? 'Names must match exactly. ' : 'Requests appear here seconds after they end. '}{live ? 'Switch Live off for earlier ones' : 'Choose a longer time'}{filtered && <>, or <Link to="/console/exchanges">remove the filters</Link></>}.</p>
      </Empty>
    );
  }
  return (
    <Table label="Exchanges" id={(r) => r.id} rows={rows} columns={[
      { head: 'Time', main: true, cell: (r) => <Link to={'/console/exchanges/' + r.id}><Time at={r.began} /></Link> },
      { head: 'Outcome', cell: (r) => <span className="together"><Badge>{r.outcome}</Badge> <span className="hint">{r.status}</span></span> },
      { head: 'Model', cell: (r) => <>{r.model}{r.target && <div className="hint">{r.target}</div>}{r.error?.refused && <div className="hint">{r.error.refused}: {r.error.code}</div>}</> },
      { head: 'Key', cell: (r) => <KeyOf request={r} /> },
      { head: 'Fidelity', cell: (r) => { const fidelity = fidelityOf(r); return fidelity ? <Badge>{fidelity}</Badge> : '–'; } },
      { head: 'Took', number: true, cell: (r) => <>{seconds(r.took_seconds)}{r.first_token_seconds !== undefined && <div className="hint">token {seconds(r.first_token_seconds)}</div>}</> },
      { head: 'Tokens', number: true, cell: (r) => (r.estimated ? '≈ ' : '') + compact(tokenSum(r.tokens)) },
      { head: 'Cost', number: true, cell: (r) => (r.cost === undefined ? 'not known' : dollars(r.cost)) },
      { head: 'Attempts', number: true, cell: (r) => r.attempts.length },
    ]} />
  );
}

// fidelityOf is the fidelity of a response that was sent, or of a request that was refused because of it. Rows of older
// releases have one for errors too.
const fidelityOf = (r: Request) => (r.fidelity === 'refused' || !(r.outcome === 'failed' && (r.status >= 400 || r.status === 0)) ? r.fidelity : undefined);

// reasonOf says why a request was refused.
function reasonOf({ error }: Request): string {
  return error?.refused ? reasons[error.refused] : '';
}

// Told is the error as the client got it.
function Told({ error }: { error: Schemas['RequestError'] }) {
  return <>{error.message ?? <span className="hint">the error of the upstream, whose text is not stored</span>}{error.code && <> <code>{error.code}</code></>}</>;
}

function KeyOf({ request: { key, key_name: name, person } }: { request: Request }) {
  const can = useCan();
  if (!key) return '–';
  const text = person?.name || (name ?? key);
  return can('get-key') ? <Link to={'/console/keys/' + key}>{text}</Link> : text;
}

function OpenByID() {
  const [id, setID] = useState('');
  const open = (e: FormEvent) => {
    e.preventDefault();
    if (id.trim()) go('/console/exchanges/' + encodeURIComponent(id.trim()));
  };
  return <form className="filter" onSubmit={open}><Text label="Open by id" value={id} set={setID} placeholder="request id" /></form>;
}

export function ExchangePage({ id }: { id: string }) {
  const request = useGet('/api/v1/requests/{request}', { path: { request: decodeURIComponent(id) } });
  return (
    <>
      <p className="back"><Link to="/console/exchanges">← Exchanges</Link></p>
      <PageHead title="Exchange" />
      <Show query={request} what="the exchange">
        {(r) => (
          <>
            <Card title="Request" calls={[request.call]} wide>
              <Facts rows={[
                ['Id', <span key="id" className="copied"><code>{r.id}</code> <Copy text={r.id} label="Copy id" /></span>],
                ['Time', <Time key="t" at={r.began} exact />],
                ['Outcome', <span key="o"><Badge>{r.outcome}</Badge> {r.error?.refused ? reasonOf(r) : outcomes[r.outcome]}, status {r.status}</span>],
                ['The client was told', r.error && <Told key="e" error={r.error} />],
                ['It would have passed with', r.error?.remedy],
                ['Took', seconds(r.took_seconds) + (r.first_token_seconds === undefined ? '' : ', first token after ' + seconds(r.first_token_seconds))],
                ['Model', r.model],
                ['Served by', r.target],
                ['Endpoint', r.endpoint + ', ' + r.dialect + (r.stream ? ', streaming' : '')],
                ['Key', r.key && <KeyOf key="k" request={r} />],
                ['Organisation', r.org && <span key="org" title={tenantIDs(r)}>{tenant(r)}</span>],
                ['User agent', r.user_agent],
                ['End user', r.user],
                ['Tags', r.tags?.map((t) => t.key + ': ' + t.value).join(', ')],
                ['Node', r.node],
                ['Trace', r.trace && <span key="x" className="copied"><code>{r.trace}</code> <Copy text={r.trace} label="Copy trace id" /></span>],
                ['Log', <InLog key="l" id={r.id} />],
              ]} />
            </Card>
            <Card title="Attempts" wide>
              {r.attempts.length === 0 ? <Empty title="No target was tried"><p>{r.outcome === 'cached' ? 'The response came from the cache.' : 'The gateway refused the request before it chose a target.'}</p></Empty> : <Timeline request={r} />}
            </Card>
            <Card title="Lost in translation" wide><Losses request={r} /></Card>
            <Card title="Tokens and price" wide><Price request={r} /></Card>
          </>
        )}
      </Show>
    </>
  );
}

// InLog is the command that finds a request in the log of the gateway.
function InLog({ id }: { id: string }) {
  const command = `grep '"id":"${id}"'`;
  return <span className="copied"><code>{command}</code> <Copy text={command} label="Copy command" /></span>;
}

function Losses({ request: r }: { request: Request }) {
  const fidelity = fidelityOf(r);
  if (!fidelity) return <Empty title={r.outcome === 'failed' ? 'The client got an error, not a response' : 'Nothing was translated'} />;
  if (!r.losses?.length && fidelity === 'exact') return <p><Badge>exact</Badge> The target got the whole request, and the client the whole response.</p>;
  return (
    <>
      <p><Badge>{fidelity}</Badge> {r.losses ? 'These fields of the request or response were not translated exactly:' : 'The ledger has no fields.'}</p>
      <ul className="lost" aria-label="Losses">
        {r.losses?.map((l, i) => <li key={i}><code>{l.path}</code> <span className="hint">{l.code}</span></li>)}
      </ul>
      {r.losses_left_out !== undefined && <p className="hint">And {count(r.losses_left_out)} others, which the ledger does not keep.</p>}
    </>
  );
}

type Phase = { kind: string; label: string; from: number; to: number };

// phasesOf divides the time of an attempt by what the gateway waited for.
function phasesOf(a: Attempt): Phase[] {
  const marks: [string, string, number | undefined][] = [
    ['connect', 'connecting', a.connect_seconds],
    ['wait', 'waiting for the first byte', a.first_byte_seconds],
    ['token', 'waiting for the first token', a.first_token_seconds],
    [a.fault ? 'failed' : 'rest', a.fault ? 'until it failed' : 'receiving the rest', a.took_seconds],
  ];
  let at = 0;
  return marks.flatMap(([kind, label, end]) => {
    if (end === undefined || end < at) return [];
    const phase = { kind, label, from: at, to: end };
    at = end;
    return [phase];
  });
}

const inWords = (phases: Phase[]) => phases.map((p) => p.label + ' ' + seconds(p.to - p.from)).join(', ');

// Bar draws phases within the time of the request. Its label says the same in words.
function Bar({ label, phases, whole }: { label: string; phases: Phase[]; whole: number }) {
  const x = (t: number) => Math.min(1000, (t / whole) * 1000);
  return (
    <svg className="bar" viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label={label}>
      <rect className="track" width="1000" height="14" />
      {phases.map((p) => <rect key={p.kind} className={p.kind} x={Math.min(995, x(p.from))} width={Math.max(5, x(p.to) - x(p.from))} height="14" />)}
    </svg>
  );
}

const legend = [['queue', 'before the first attempt'], ['connect', 'connecting'], ['wait', 'to the first byte'], ['token', 'to the first token'], ['rest', 'to the end'], ['failed', 'failed']] as const;

// Timeline draws each attempt within the time of the request.
function Timeline({ request }: { request: Request }) {
  const { attempts } = request;
  const offset = (a: Attempt) => Math.max(0, between(request.began, a.began));
  const whole = Math.max(request.took_seconds, ...attempts.map((a) => offset(a) + a.took_seconds), 0.000001);
  const queue = request.queue_seconds ?? offset(attempts[0]!);
  return (
    <>
      <ol className="timeline">
        <li>
          <div className="timeline-head"><span>Before the first attempt</span><span className="hint">{seconds(queue)}</span></div>
          <Bar label={'Before the first attempt: ' + seconds(queue)} whole={whole} phases={[{ kind: 'queue', label: '', from: 0, to: queue }]} />
        </li>
        {attempts.map((a, i) => {
          const phases = phasesOf(a), words = inWords(phases);
          const failed = a.fault || a.status === undefined || a.status >= 400;
          return (
            <li key={i}>
              <div className="timeline-head">
                <strong>{i + 1}. {a.target}</strong>
                <span>{failed ? <span className="bad-text">failed{a.fault && ': ' + a.fault}</span> : 'succeeded'}{a.status === undefined ? ', no response' : ', status ' + a.status}</span>
              </div>
              <Bar label={`Attempt ${i + 1}, ${a.target}, begins after ${seconds(offset(a))}: ${words}`} whole={whole} phases={phases.map((p) => ({ ...p, from: p.from + offset(a), to: p.to + offset(a) }))} />
              <div className="hint">
                Begins after {seconds(offset(a))}: {words || seconds(a.took_seconds)}.{a.status !== undefined && a.connect_seconds === undefined && ' An open connection was used.'}
                {failed && (i + 1 < attempts.length ? ' The next target was tried.' : ' No other target was tried.')}{a.charged && ' Charged to the client.'}
              </div>
            </li>
          );
        })}
      </ol>
      <div className="timeline-axis hint" aria-hidden="true"><span>0 s</span><span>{seconds(whole)}</span></div>
      <ul className="timeline-legend hint" aria-hidden="true">{legend.map(([kind, label]) => <li key={kind}><svg viewBox="0 0 10 10" className="bar-key"><rect className={kind} width="10" height="10" /></svg>{label}</li>)}</ul>
    </>
  );
}

const classes = [['input', 'Input'], ['cache_read', 'Cache read'], ['cache_write', 'Cache write'], ['output', 'Output'], ['reasoning', 'Reasoning']] as const;

// Arithmetic is the price of an attempt: tokens times dollars per million, exactly.
function Arithmetic({ attempt: a, title }: { attempt: Attempt; title: string }) {
  const prices = a.prices;
  if (!prices) return null;
  // A part with a price of its own is not in the product of the tokens that include it.
  const priced = (a.tokens.units ?? []).flatMap((u) => (prices.units ?? []).filter((p) => p.unit === u.unit).map((p) => ({ ...u, ...p })));
  const own = (key: (typeof classes)[number][0]) => priced.filter((u) => u.within === key).reduce((rest, u) => Math.max(0, rest - u.amount), a.tokens[key]);
  const lines = [
    ...classes.filter(([key]) => own(key) > 0).map(([key, name]) => ({ name, product: count(own(key)) + ' tokens × $' + prices[key] + ' per million', amount: BigInt(own(key)) * nanos(prices[key]) })),
    ...priced.map((u) => ({ name: u.label, product: count(u.amount) + ' × $' + u.price + ' per ' + u.per, amount: BigInt(u.amount) * nanos(u.price) * (u.per === 'piece' ? million : 1n) })),
  ];
  const request = nanos(prices.request) * million;
  return (
    <details className="arithmetic">
      <summary>How the cost of {title} is computed</summary>
      <Table label={'Price of ' + title} id={(l) => l.name} rows={[
        ...lines.map((l) => ({ ...l, amount: '$' + exact(l.amount) })),
        ...(request > 0n ? [{ name: 'Request', product: 'one', amount: '$' + exact(request) }] : []),
        { name: 'Sum', product: '', amount: a.cost === undefined ? 'not known' : '$' + a.cost },
      ]} columns={[
        { head: 'Tokens', main: true, cell: (l) => l.name },
        { head: 'Product', number: true, cell: (l) => l.product },
        { head: 'Amount', number: true, cell: (l) => l.amount },
      ]} />
      {a.cost !== undefined && lines.reduce((sum, l) => sum + l.amount, request) !== nanos(a.cost) * million && <p className="hint">Rounded to billionths of a dollar.</p>}
    </details>
  );
}

const million = 1_000_000n;

// exact writes an amount in millionths of a nano-dollar.
function exact(n: bigint): string {
  const digits = String(n).padStart(16, '0');
  return (digits.slice(0, -15) + '.' + digits.slice(-15)).replace(/\.?0+$/, '');
}

function Price({ request }: { request: Request }) {
  const rows = [
    ...request.attempts.map((a, i) => ({ name: i + 1 + '. ' + a.target, tokens: a.tokens, cost: a.cost, note: a.charged ? 'charged' : 'not charged' })),
    { name: 'Client is charged', tokens: request.tokens, cost: request.cost, note: request.estimated ? 'estimated' : request.attempts.length > 0 ? 'as reported' : '' },
  ];
  const extra = request.attempts.filter((a) => !a.charged).reduce((sum, a) => sum + nanos(a.cost), 0n);
  return (
    <>
      <Table label="Tokens and price" id={(_, i) => String(i)} rows={rows} columns={[
        { head: 'Attempt', main: true, cell: (r) => r.name },
        ...classes.map(([key, head]) => ({ head, number: true, cell: (r: (typeof rows)[number]) => count(r.tokens[key]) })),
        ...unitsIn(rows.map((r) => r.tokens)).map((u) => ({ head: u.label, number: true, cell: (r: (typeof rows)[number]) => count(amountOf(r.tokens, u.unit)) })),
        { head: 'Cost', number: true, cell: (r) => (r.cost === undefined ? 'not known' : '$' + r.cost) },
        { head: 'Note', cell: (r) => <span className="hint">{r.note}</span> },
      ]} />
      {request.attempts.map((a, i) => <Arithmetic key={i} attempt={a} title={'attempt ' + (i + 1)} />)}
      {request.estimated && <p className="hint">The provider reported no usage; the gateway has estimated the tokens.</p>}
      {extra > 0n && <p className="hint">Attempts that are not charged cost the operator another {dollars(extra)}.</p>}
      {request.cost === undefined && <p className="hint">This model has no price. Write one under <code>prices</code> in the configuration.</p>}
    </>
  );
}
