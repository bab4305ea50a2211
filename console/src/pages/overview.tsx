import { useMemo, type ReactNode } from 'react';
import type { Schemas } from '../api/client';
import { useGet } from '../api/hooks';
import { Link } from '../router';
import { useCan } from '../session';
import { buckets, Chart, seriesOf } from '../ui/chart';
import { compact, count, dollars, money, nanos, seconds, toDollars, tokenSum } from '../ui/format';
import { Badge, Card, Empty, PageHead, Show, Source, Table, Time } from '../ui/parts';
import { RangePicker, useRange, type Range } from '../ui/range';

type Target = Schemas['Target'];
type Sum = Schemas['SumView'];

export function OverviewPage() {
  const can = useCan();
  const range = useRange();
  const targets = useGet('/api/v1/targets', {}, { enabled: can('list-targets'), every: 5_000 });
  return (
    <>
      <PageHead title="Overview">{can('get-usage') && <RangePicker />}</PageHead>
      {can('list-targets') && targets.data && <Warnings targets={targets.data.targets} />}
      {can('get-usage') ? <Usage range={range} /> : <Empty title="Your role sees no usage"><p>Keys, teams and budgets are in the navigation.</p></Empty>}
      {can('list-targets') && (
        <Card title="Targets" calls={[targets.call]} wide>
          <Show query={targets} what="targets">{(d) => <Targets targets={d.targets} />}</Show>
        </Card>
      )}
      {can('list-requests') && <Failures range={range} />}
    </>
  );
}

// Warnings says in words what needs somebody's attention.
function Warnings({ targets }: { targets: Target[] }) {
  const down = targets.filter((t) => t.state !== 'up');
  const models = [...new Set(targets.flatMap((t) => t.models))].filter((m) => targets.every((t) => t.state !== 'up' || !t.models.includes(m)));
  const failing = targets.filter((t) => t.state === 'up' && t.failures_in_a_row > 0);
  const lines: ReactNode[] = [
    ...models.map((m) => <><strong>{m}</strong> has no target that gets requests: its requests fail.</>),
    ...down.map((t) => <><strong>{t.target}</strong> gets no requests{t.until && <> until <Time at={t.until} /></>}{t.why && ': ' + t.why}.</>),
    ...failing.map((t) => <><strong>{t.target}</strong> failed {t.failures_in_a_row === 1 ? 'at its last request' : t.failures_in_a_row + ' times in a row'}.</>),
  ];
  if (lines.length === 0) return null;
  return <ul className="notice warnings" aria-label="Warnings">{lines.map((l, i) => <li key={i}>{l}</li>)}</ul>;
}

function Usage({ range }: { range: Range }) {
  const query = { from: range.from, to: range.to };
  const total = useGet('/api/v1/usage', { query }, { every: 30_000 });
  const byModel = useGet('/api/v1/usage', { query: { ...query, group: [range.group, 'model'] } }, { every: 30_000 });
  const times = useMemo(() => buckets(range.from, range.to, range.group), [range.from, range.to, range.group]);
  const rows = byModel.data?.sums;
  const charts = useMemo(() => rows && chartsOf(rows, times), [rows, times]);
  const sum = total.data?.sums[0];
  const per = range.group === 'hour' ? 'per hour' : 'per day (UTC)';
  return (
    <Show query={byModel} what="usage">
      {() => !charts || charts.requests.length === 0 ? (
        <Card title="Usage" calls={[byModel.call]} wide>
          <Empty title="No requests in this time">
            <p>Choose a longer time, or send one: point a client at the gateway with a <Link to="/console/keys">client's key</Link>.</p>
          </Empty>
        </Card>
      ) : (
        <>
          {sum && <Tiles sum={sum} />}
          <div className="source-line"><Source calls={[total.call]} /></div>
          <div className="grid three">
            <Card title={'Requests ' + per} calls={[byModel.call]}><Chart label="Requests by model" times={times} series={charts.requests} format={compact} /></Card>
            <Card title={'Spend ' + per} calls={[byModel.call]}><Chart label="Spend by model" times={times} series={charts.spend} format={money} /></Card>
            <Card title={'Tokens ' + per} calls={[byModel.call]}><Chart label="Tokens by model" times={times} series={charts.tokens} format={compact} /></Card>
          </div>
        </>
      )}
    </Show>
  );
}

// chartsOf returns the series of the charts. A model has the same colour in all of them: the models with
// the most requests have their own, the others are summed up.
function chartsOf(rows: Sum[], times: number[]) {
  const requests = seriesOf(rows, times, (r) => r.model ?? '', (r) => r.requests);
  const shown = requests.map((s) => s.name);
  const others = shown.at(-1)?.endsWith(' others') ? shown.at(-1)! : '';
  const name = (r: Sum) => (shown.includes(r.model || '(none)') ? r.model || '(none)' : others);
  const sameOrder = (value: (r: Sum) => number) => seriesOf(rows, times, name, value).toSorted((a, b) => shown.indexOf(a.name) - shown.indexOf(b.name));
  return { requests, tokens: sameOrder((r) => tokenSum(r.tokens)), spend: sameOrder((r) => toDollars(nanos(r.cost))) };
}

function Tiles({ sum }: { sum: Sum }) {
  const t = sum.tokens;
  const tiles: [string, string, string][] = [
    ['Requests', count(sum.requests), sum.estimated ? count(sum.estimated) + ' with estimated tokens' : 'tokens as reported by providers'],
    ['Tokens', compact(tokenSum(t)), compact(t.input + t.cache_read + t.cache_write) + ' in, ' + compact(t.output + t.reasoning) + ' out'],
    ['Spend', dollars(sum.cost), sum.unpriced ? count(sum.unpriced) + ' requests without a known price' : 'every request has a price'],
  ];
  return <dl className="tiles">{tiles.map(([name, value, note]) => <div key={name}><dt>{name}</dt><dd><strong>{value}</strong><span className="hint">{note}</span></dd></div>)}</dl>;
}

function Targets({ targets }: { targets: Target[] }) {
  if (targets.length === 0) return <Empty title="There are no targets"><p>Add providers and models to the configuration, then reload it.</p></Empty>;
  return (
    <Table label="Targets" id={(t) => t.target} rows={targets} columns={[
      { head: 'Target', main: true, cell: (t) => <>{t.target}<div className="hint">{t.models.join(', ')}</div></> },
      { head: 'State', cell: (t) => <><Badge>{t.state}</Badge>{t.why && <div className="hint">{t.why}</div>}</> },
      { head: 'Open', number: true, cell: (t) => count(t.open) },
      { head: 'Succeeded', number: true, cell: (t) => count(t.succeeded) },
      { head: 'Failed', number: true, cell: (t) => count(t.failed) },
      { head: 'First token p50', number: true, cell: (t) => (t.first_token_p50_seconds ? seconds(t.first_token_p50_seconds) : '–') },
      { head: 'p95', number: true, cell: (t) => (t.first_token_p95_seconds ? seconds(t.first_token_p95_seconds) : '–') },
    ]} />
  );
}

// Failures lists the last requests that failed.
function Failures({ range }: { range: Range }) {
  const failed = useGet('/api/v1/requests', { query: { from: range.from, to: range.to, outcome: 'failed', limit: 5 } }, { every: 15_000 });
  return (
    <Card title="Last failures" calls={[failed.call]} wide actions={<Link to="/console/exchanges?outcome=failed">All failures</Link>}>
      <Show query={failed} what="failures">
        {(d) => d.requests.length === 0 ? <Empty title="No request failed in this time" /> : (
          <Table label="Last failures" id={(r) => r.id} rows={d.requests} columns={[
            { head: 'Time', main: true, cell: (r) => <Link to={'/console/exchanges/' + r.id}><Time at={r.began} /></Link> },
            { head: 'Model', cell: (r) => r.model },
            { head: 'Status', number: true, cell: (r) => r.status },
            { head: 'Attempts', cell: (r) => r.attempts.map((a) => a.target + (a.fault ? ': ' + a.fault : '')).join(', ') || '–' },
          ]} />
        )}
      </Show>
    </Card>
  );
}
