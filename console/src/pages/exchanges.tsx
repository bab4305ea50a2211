import { useState, type FormEvent } from 'react';
import type { Schemas } from '../api/client';
import { useGet, useKeyNames, usePages } from '../api/hooks';
import { rateOf, useTail, type Tail } from '../api/tail';
import { go, Link, setParams, useLocation, useParam } from '../router';
import { useCan } from '../session';
import { between, compact, count, dollars, nanos, seconds, tokenSum } from '../ui/format';
import { Badge, Button, Card, Copy, Empty, Facts, More, PageHead, Select, Show, Table, Text, Time } from '../ui/parts';
import { Filter, RangePicker, useRange } from '../ui/range';

type Request = Schemas['RequestView'];
type Attempt = Schemas['AttemptView'];

export const outcomes: Record<Request['outcome'], string> = {
  answered: 'the client got the whole response',
  left: 'the client disconnected',
  failed: 'no target gave a response',
  refused: 'a limit or a rule refused it',
  lost: 'the response was cut',
  cached: 'answered from the cache',
};

const known = (text: string): text is Request['outcome'] => text in outcomes;

const filterNames = ['org', 'team', 'key', 'model', 'target', 'outcome'] as const;

// useFilters returns the filters in the address, as the API has them.
function useFilters() {
  const { query } = useLocation();
  const value = (n: string) => query.get(n) || undefined;
  const outcome = query.get('outcome') ?? '';
  return { org: value('org'), team: value('team'), key: value('key'), model: value('model'), target: value('target'), outcome: known(outcome) ? outcome : undefined };
}

export function ExchangesPage() {
  const { query } = useLocation();
  const [live, setLive] = useParam('live');
  const outcome = query.get('outcome') ?? '';
  return (
    <>
      <PageHead title="Exchanges">
        <label className="check"><input type="checkbox" checked={live !== ''} onChange={(e) => setLive(e.target.checked ? '1' : '')} /> Live</label>
      </PageHead>
      <div className="filters" role="search" aria-label="Filter exchanges">
        {!live && <RangePicker initial="24h" />}
        <Filter name="model" label="Model" />
        <Filter name="target" label="Target" />
        <Filter name="key" label="Key id" />
        <Filter name="org" label="Organisation" />
        {query.get('org') && <Filter name="team" label="Team" />}
        <Select label="Outcome" value={outcome} set={(v) => setParams({ outcome: v })} choices={[{ value: '', label: 'all' }, ...Object.keys(outcomes)]} />
        <OpenByID />
      </div>
      {live ? <Live /> : <Recorded />}
    </>
  );
}

// Recorded is the ledger, page by page.
function Recorded() {
  const range = useRange('24h');
  const list = usePages('/api/v1/requests', { query: { from: range.from, to: range.to, ...useFilters(), limit: 50 } });
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
  const can = useCan();
  const { query } = useLocation();
  const name = useKeyNames(can('list-keys'));
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
      { head: 'Model', cell: (r) => <>{r.model}{r.target && <div className="hint">{r.target}</div>}</> },
      { head: 'Key', cell: (r) => (r.key && can('get-key') ? <Link to={'/console/keys/' + r.key}>{name(r.key)}</Link> : r.key ?? '–') },
      { head: 'Took', number: true, cell: (r) => seconds(r.took_seconds) },
      { head: 'Tokens', number: true, cell: (r) => (r.estimated ? '≈ ' : '') + compact(tokenSum(r.tokens)) },
      { head: 'Cost', number: true, cell: (r) => (r.cost === undefined ? 'not known' : dollars(r.cost)) },
      { head: 'Attempts', number: true, cell: (r) => r.attempts.length },
    ]} />
  );
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
  const can = useCan();
  const name = useKeyNames(can('list-keys'));
  const request = useGet('/api/v1/requests/{request}', { path: { request: decodeURIComponent(id) } });
  return (
    <>
      <p className="back"><Link to="/console/exchanges">← Exchanges</Link></p>
      <PageHead title="Exchange" />
      <Show query={request} what="the exchange">
        {(r) => (
          <>
            <Card title="Request" calls={[request.call]} wide actions={<Copy text={r.id} label="Copy id" />}>
              <Facts rows={[
                ['Id', <code key="id">{r.id}</code>],
                ['Time', <Time key="t" at={r.began} exact />],
                ['Outcome', <span key="o"><Badge>{r.outcome}</Badge> {outcomes[r.outcome]}, status {r.status}</span>],
                ['Took', seconds(r.took_seconds)],
                ['Model', r.model],
                ['Served by', r.target],
                ['Endpoint', r.endpoint + ', ' + r.dialect + (r.stream ? ', streaming' : '')],
                ['Key', r.key && (can('get-key') ? <Link to={'/console/keys/' + r.key}>{name(r.key)}</Link> : r.key)],
                ['Organisation', r.org && r.org + (r.team ? ' / ' + r.team : '')],
                ['Node', r.node],
              ]} />
            </Card>
            <Card title="Attempts" wide>
              {r.attempts.length === 0 ? <Empty title="No target was tried"><p>{r.outcome === 'cached' ? 'The response came from the cache.' : 'The gateway refused the request before it chose a target.'}</p></Empty> : <Timeline request={r} />}
            </Card>
            <Card title="Tokens and price" wide><Price request={r} /></Card>
          </>
        )}
      </Show>
    </>
  );
}

// Timeline draws each attempt within the time of the request.
function Timeline({ request }: { request: Request }) {
  const whole = Math.max(request.took_seconds, 0.000001);
  const offset = (a: Attempt) => Math.max(0, between(request.began, a.began));
  return (
    <ol className="timeline">
      {request.attempts.map((a, i) => {
        const ok = !a.fault && a.status !== undefined && a.status < 400;
        return (
          <li key={i}>
            <div className="timeline-head">
              <strong>{i + 1}. {a.target}</strong>
              <span>{a.fault ? <span className="bad-text">{a.fault}</span> : ok ? 'succeeded' : 'failed'}{a.status !== undefined && ', status ' + a.status}</span>
            </div>
            <div className="timeline-track"><div className={ok ? 'ok' : 'not'} style={{ left: Math.min(99, (offset(a) / whole) * 100) + '%', width: Math.max(0.6, Math.min(100, (a.took_seconds / whole) * 100)) + '%' }} /></div>
            <div className="hint">begins after {seconds(offset(a))}, takes {seconds(a.took_seconds)}{a.charged ? ', charged to the client' : ''}</div>
          </li>
        );
      })}
    </ol>
  );
}

const classes = [['input', 'Input'], ['cache_read', 'Cache read'], ['cache_write', 'Cache write'], ['output', 'Output'], ['reasoning', 'Reasoning']] as const;

function Price({ request }: { request: Request }) {
  const rows = [
    ...request.attempts.map((a, i) => ({ name: i + 1 + '. ' + a.target, tokens: a.tokens, cost: a.cost, note: a.charged ? 'charged' : 'not charged' })),
    { name: 'Client is charged', tokens: request.tokens, cost: request.cost, note: request.estimated ? 'estimated' : 'as reported' },
  ];
  const extra = request.attempts.filter((a) => !a.charged).reduce((sum, a) => sum + nanos(a.cost), 0n);
  return (
    <>
      <Table label="Tokens and price" id={(_, i) => String(i)} rows={rows} columns={[
        { head: 'Attempt', main: true, cell: (r) => r.name },
        ...classes.map(([key, head]) => ({ head, number: true, cell: (r: (typeof rows)[number]) => count(r.tokens[key]) })),
        { head: 'Cost', number: true, cell: (r) => (r.cost === undefined ? 'not known' : '$' + r.cost) },
        { head: 'Note', cell: (r) => <span className="hint">{r.note}</span> },
      ]} />
      {request.estimated && <p className="hint">The provider reported no usage; the gateway has estimated the tokens.</p>}
      {extra > 0n && <p className="hint">Attempts that are not charged cost the operator another {dollars(extra)}.</p>}
      {request.cost === undefined && <p className="hint">This model has no price. Write one under <code>prices</code> in the configuration.</p>}
    </>
  );
}
