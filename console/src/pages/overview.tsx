import { useMemo } from 'react';
import type { Schemas } from '../api/client';
import { useGet } from '../api/hooks';
import { Link, setParams, useParam } from '../router';
import { useCan } from '../session';
import { buckets, Chart, Lines, seriesOf, type Line } from '../ui/chart';
import { ago, compact, count, dollars, money, nanos, seconds, toDollars, tokenSum } from '../ui/format';
import { Card, Empty, PageHead, Select, Show, Source, Table, Time } from '../ui/parts';
import { RangePicker, useRange, type Range } from '../ui/range';
import { TargetTable } from '../ui/targets';
import { Refused } from './refused';
import { Warnings } from './warnings';

type Sum = Schemas['SumView'];
type Node = Schemas['NodeView'];

export function OverviewPage() {
  const can = useCan();
  const range = useRange();
  const targets = useGet('/api/v1/targets', {}, { enabled: can('list-targets'), every: 5_000 });
  const nodes = useGet('/api/v1/nodes', {}, { enabled: can('list-nodes'), every: 5_000 });
  return (
    <>
      <PageHead title="Overview">{can('get-usage') && <RangePicker />}</PageHead>
      <Warnings targets={targets.data?.targets ?? []} nodes={nodes.data} calls={[targets.call, nodes.call]} />
      {nodes.data && <Now nodes={nodes.data.nodes.filter((n) => n.state === 'running')} call={nodes.call} />}
      {can('get-usage') ? <Usage range={range} /> : <Empty title="Your role sees no usage"><p>Keys, teams and budgets are in the navigation.</p></Empty>}
      {can('list-targets') && (
        <Card title="Targets" calls={[targets.call]} wide>
          <Show query={targets} what="targets">{(d) => <FewTargets targets={d.targets} />}</Show>
        </Card>
      )}
      {can('list-refusals') && <Refused range={range} title="Refused requests" />}
      {can('list-requests') && <Failures range={range} />}
    </>
  );
}

const fewest = 10; // targets of which all are shown

// FewTargets lists the targets that need attention, and those with requests. The page of models has all.
function FewTargets({ targets }: { targets: Schemas['Target'][] }) {
  const calm = (t: Schemas['Target']) => (t.state === 'ready' ? 1 : 0);
  const first = targets.toSorted((a, b) => calm(a) - calm(b) || b.succeeded + b.failed - (a.succeeded + a.failed)).slice(0, fewest);
  return (
    <>
      <TargetTable targets={targets.length > fewest ? first : targets} />
      {targets.length > fewest && <p className="more"><Link to="/console/models">All {count(targets.length)} targets</Link></p>}
    </>
  );
}

// Now shows what the nodes do at present.
function Now({ nodes, call }: { nodes: Node[]; call: Parameters<typeof Source>[0]['calls'][number] }) {
  const sum = (value: (n: Node) => number) => nodes.reduce((all, n) => all + value(n), 0);
  const waiting = sum((n) => n.ledger.rows);
  const versions = new Set(nodes.map((n) => n.version)).size;
  return (
    <>
      <Tiles label="Now" tiles={[
        ['Open requests', count(sum((n) => n.open)), nodes.length > 1 ? 'on all nodes, as they reported last' : 'on this node'],
        ['Not in the ledger yet', count(waiting), waiting ? 'the oldest for ' + ago(Math.max(...nodes.map((n) => n.ledger.oldest_seconds))) : 'the numbers below are complete'],
        ['Nodes', count(nodes.length), versions > 1 ? versions + ' versions' : nodes[0]?.version ?? ''],
      ]} />
      <div className="source-line"><Source calls={[call]} /></div>
    </>
  );
}

function Usage({ range }: { range: Range }) {
  const [by] = useParam('by', 'model');
  const what = by === 'target' ? 'target' : 'model';
  const usage = useGet('/api/v1/usage', { query: { from: range.from, to: range.to, group: [range.group, what] } }, { every: 30_000 });
  const times = useMemo(() => buckets(range.from, range.to, range.group), [range.from, range.to, range.group]);
  const rows = usage.data?.sums;
  const charts = useMemo(() => rows && chartsOf(rows.filter((r) => r.requests > 0), times, what), [rows, times, what]);
  const per = range.group === 'hour' ? 'per hour' : 'per day (UTC)';
  return (
    <Show query={usage} what="usage">
      {(d) => !charts || charts.requests.length === 0 ? (
        <Card title="Usage" calls={[usage.call]} wide>
          <Empty title="No requests in this time">
            <p>Choose a longer time, or send one: point a client at the gateway with a <Link to="/console/keys">client's key</Link>.</p>
          </Empty>
        </Card>
      ) : (
        <>
          <Tiles label="Sums" tiles={tilesOf(d.total)} />
          <div className="source-line usage-source"><Source calls={[usage.call]} /></div>
          <div className="filters"><Select label="Charts by" value={what} set={(v) => setParams({ by: v === 'model' ? '' : v })} choices={['model', 'target']} /></div>
          <div className="charts">
            <Card title={'First token ' + per} calls={[usage.call]}><FirstToken rows={d.times ?? []} times={times} /></Card>
            <Card title={'Errors ' + per} calls={[usage.call]}>
              {charts.errors.some((s) => s.values.some((v) => v > 0)) ? <Chart label={'Errors by ' + what} times={times} series={charts.errors} format={compact} /> : <Empty title="No request failed in this time" />}
            </Card>
            <Card title={'Requests ' + per} calls={[usage.call]}><Chart label={'Requests by ' + what} times={times} series={charts.requests} format={compact} /></Card>
            <Card title={'Spend ' + per} calls={[usage.call]}><Chart label={'Spend by ' + what} times={times} series={charts.spend} format={money} /></Card>
            <Card title={'Tokens ' + per} calls={[usage.call]}><Chart label={'Tokens by ' + what} times={times} series={charts.tokens} format={compact} /></Card>
          </div>
        </>
      )}
    </Show>
  );
}

// chartsOf returns the series of the charts. A model or target has the same colour in all of them: those
// with the most requests have their own, the others are summed up.
function chartsOf(rows: Sum[], times: number[], by: 'model' | 'target') {
  const requests = seriesOf(rows, times, (r) => r[by] ?? '', (r) => r.requests);
  const shown = requests.map((s) => s.name);
  const others = shown.at(-1)?.endsWith(' others') ? shown.at(-1)! : '';
  const name = (r: Sum) => (shown.includes(r[by] || '(none)') ? r[by] || '(none)' : others);
  const sameOrder = (value: (r: Sum) => number) => seriesOf(rows, times, name, value).toSorted((a, b) => shown.indexOf(a.name) - shown.indexOf(b.name));
  return { requests, errors: sameOrder((r) => r.errors), tokens: sameOrder((r) => tokenSum(r.tokens)), spend: sameOrder((r) => toDollars(nanos(r.cost))) };
}

type Tile = [name: string, value: string, note: string];

function tilesOf(sum: Sum): Tile[] {
  const t = sum.tokens;
  return [
    ['Requests', count(sum.requests), sum.estimated ? count(sum.estimated) + ' with estimated tokens' : 'tokens as reported by providers'],
    ['Errors', count(sum.errors), [sum.requests && share(sum.errors, sum.requests) + ' of the requests', sum.refused && count(sum.refused) + ' refused'].filter(Boolean).join(', and ')],
    ['First token', sum.first_token ? seconds(sum.first_token.p50) : '–', sum.first_token ? 'p95 ' + seconds(sum.first_token.p95) + ' of ' + count(sum.first_token.count) + ' streams' : 'no request was streamed'],
    ['Tokens', compact(tokenSum(t)), compact(t.input + t.cache_read + t.cache_write) + ' in, ' + compact(t.output + t.reasoning) + ' out'],
    ['Spend', dollars(sum.cost), sum.unpriced ? count(sum.unpriced) + ' requests without a known price' : 'every request has a price'],
  ];
}

// share writes a part in percent, with more places if it is small.
function share(part: number, of: number): string {
  const percent = (part / of) * 100;
  return (percent > 0 && percent < 0.1 ? '< 0.1' : Number(percent.toPrecision(2))) + ' %';
}

// FirstToken draws the time to the first token of streams.
function FirstToken({ rows, times }: { rows: Sum[]; times: number[] }) {
  const lines = useMemo(() => linesOf(rows, times), [rows, times]);
  if (lines.every((l) => l.values.every((v) => v === null))) return <Empty title="No request was streamed in this time"><p>Other requests have no first token.</p></Empty>;
  const last = (l: Line) => l.values.findLast((v) => v !== null) ?? 0;
  return <Lines label={'First token. Last: ' + lines.map((l) => l.name + ' ' + seconds(last(l))).join(', ')} times={times} lines={lines} format={seconds} height={180} value={(l) => seconds(last(l))} />;
}

function linesOf(rows: Sum[], times: number[]): Line[] {
  const at = new Map(rows.map((r) => [Date.parse(r.start ?? '') / 1000, r.first_token]));
  return [
    { name: 'p50', values: times.map((t) => at.get(t)?.p50 ?? null), colour: 'c0' },
    { name: 'p95', values: times.map((t) => at.get(t)?.p95 ?? null), colour: 'c1' },
  ];
}

function Tiles({ label, tiles }: { label: string; tiles: Tile[] }) {
  return <dl className="tiles" aria-label={label}>{tiles.map(([name, value, note]) => <div key={name}><dt>{name}</dt><dd><strong>{value}</strong><span className="hint">{note}</span></dd></div>)}</dl>;
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
