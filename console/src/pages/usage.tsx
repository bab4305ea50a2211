import { useMemo, useState } from 'react';
import type { Schemas } from '../api/client';
import { useGet } from '../api/hooks';
import { setParams, useLocation } from '../router';
import { buckets, Chart, seriesOf } from '../ui/chart';
import { amountOf, compact, count, dollars, money, nanos, tenant, toDollars, tokenSum, unitsIn } from '../ui/format';
import { Button, Card, Empty, PageHead, Select, Show, Table } from '../ui/parts';
import { Filter, RangePicker, useRange } from '../ui/range';

type Sum = Schemas['SumView'];

const dimensions = ['model', 'target', 'key', 'team', 'org', 'user', 'tag'] as const;
type Dimension = (typeof dimensions)[number];
const titles: Record<Dimension, string> = { model: 'model', target: 'target', key: 'key or person', team: 'team', org: 'organisation', user: 'end user', tag: 'tag' };

// labels are what clients send with a request. The API groups by one of them.
const isLabel = (d: Dimension | undefined) => d === 'user' || d === 'tag';

const metrics = {
  spend: { label: 'spend', value: (s: Sum) => toDollars(nanos(s.cost)), format: money },
  requests: { label: 'requests', value: (s: Sum) => s.requests, format: compact },
  errors: { label: 'errors', value: (s: Sum) => s.errors, format: compact },
  refused: { label: 'refused requests', value: (s: Sum) => s.refused, format: compact },
  tokens: { label: 'tokens', value: (s: Sum) => tokenSum(s.tokens), format: compact },
};
type Metric = keyof typeof metrics;

const most = 200; // rows of the table, until all are wanted

const tagKey = /^[a-z0-9_.-]{1,32}$/;

const asDimension = (text: string | null): Dimension | undefined => dimensions.find((d) => d === text);

export function UsagePage() {
  const { query } = useLocation();
  const range = useRange('7d');
  const first = asDimension(query.get('by')) ?? 'model';
  const then = asDimension(query.get('then'));
  const second = then === first || (isLabel(first) && isLabel(then)) ? undefined : then;
  const metric = (query.get('show') ?? 'spend') in metrics ? (query.get('show') ?? 'spend') as Metric : 'spend';
  const by = second ? [first, second] : [first];
  const tag = tagKey.test(query.get('tag') ?? '') ? query.get('tag')! : '';
  const groups = by.map((d) => (d === 'tag' ? `tag:${tag}` as const : d));
  const ready = !by.includes('tag') || tag !== '';
  const filter = { from: range.from, to: range.to };
  const sums = useGet('/api/v1/usage', { query: { ...filter, group: groups } }, { enabled: ready });
  const times = useMemo(() => buckets(range.from, range.to, range.group), [range.from, range.to, range.group]);
  // The API returns at most 10,000 sums, so a chart of more is not asked for.
  const crowded = (sums.data?.sums.length ?? 0) * times.length > 10_000;
  const over = useGet('/api/v1/usage', { query: { ...filter, group: [range.group, ...groups] } }, { enabled: ready && sums.data !== undefined && !crowded });
  const cell = (s: Sum, d: Dimension) => (d === 'key' ? s.key_name ?? s.key : d === 'org' ? s.org_name ?? s.org : d === 'team' ? s.team && tenant(by.includes('org') ? { ...s, org: '', org_name: '' } : s) : s[d]) || '(none)';
  const rows = over.data?.sums;
  const names = by.join();
  const series = useMemo(
    () => rows && seriesOf(rows.filter((s) => s.requests > 0 || metric === 'refused' && s.refused > 0), times, (s) => names.split(',').map((d) => cell(s, d as Dimension)).join(' / '), metrics[metric].value),
    [rows, times, names, metric],
  );
  const [all, setAll] = useState(false);
  const table = (sums.data?.sums ?? []).toSorted((a, b) => metrics[metric].value(b) - metrics[metric].value(a));
  return (
    <>
      <PageHead title="Usage" />
      <div className="filters">
        <RangePicker initial="7d" />
        <Select label="Show" value={metric} set={(v) => setParams({ show: v })} choices={Object.entries(metrics).map(([value, m]) => ({ value, label: m.label }))} />
        <Select label="By" value={first} set={(v) => setParams({ by: v })} choices={dimensions.map((d) => ({ value: d, label: titles[d] }))} />
        <Select label="And by" value={second ?? ''} set={(v) => setParams({ then: v })} choices={[{ value: '', label: 'nothing else' }, ...dimensions.filter((d) => d !== first && !(isLabel(d) && isLabel(first))).map((d) => ({ value: d, label: titles[d] }))]} />
        {by.includes('tag') && <Filter name="tag" label="Key of the tag" />}
      </div>
      {!ready ? (
        <Empty title="Which tag?"><p>Write the key of the tag above, such as <code>team</code>. Clients send tags in the header <code>Isogloss-Tags: team=search</code>.</p></Empty>
      ) : (
        <>
          <Card title={metrics[metric].label.replace(/^./, (c) => c.toUpperCase()) + (range.group === 'hour' ? ' per hour' : ' per day (UTC)')} calls={[over.call]} wide>
            {crowded ? <Empty title="Too many sums to draw"><p>{count(sums.data?.sums.length ?? 0)} sums over time. Choose one dimension, or a shorter time.</p></Empty> : <Show query={over} what="usage">
              {() => series && series.length > 0
                ? <Chart label={metrics[metric].label + ' by ' + by.map((d) => titles[d]).join(' and ')} times={times} series={series} format={metrics[metric].format} height={260} />
                : <Empty title="No requests in this time"><p>Choose a longer time.</p></Empty>}
            </Show>}
          </Card>
          <Card title="Sums" calls={[sums.call]} wide actions={table.length > 0 && <Button onClick={() => download(table, by, range.from, range.to)}>Download CSV</Button>}>
            <Show query={sums} what="sums">
              {() => table.length === 0 ? <Empty title="Nothing to sum up"><p>Choose a longer time, or send requests with a client’s key.</p></Empty> : (
                <Table label="Sums" id={(_, i) => String(i)} rows={all ? table : table.slice(0, most)} columns={[
                  ...by.map((d, i) => ({ head: titles[d].replace(/^./, (c) => c.toUpperCase()), main: i === 0, cell: (s: Sum) => cell(s, d) })),
                  { head: 'Requests', number: true, cell: (s) => count(s.requests) },
                  { head: 'Errors', number: true, cell: (s) => count(s.errors) },
                  ...(table.some((s) => s.refused > 0) ? [{ head: 'Refused', number: true, cell: (s: Sum) => count(s.refused) }] : []),
                  { head: 'Input', number: true, cell: (s) => count(s.tokens.input) },
                  { head: 'Cached', number: true, cell: (s) => count(s.tokens.cache_read + s.tokens.cache_write) },
                  { head: 'Output', number: true, cell: (s) => count(s.tokens.output + s.tokens.reasoning) },
                  ...unitsIn(table.map((s) => s.tokens)).map((u) => ({ head: u.label, number: true, cell: (s: Sum) => count(amountOf(s.tokens, u.unit)) })),
                  { head: 'Spend', number: true, cell: (s) => <span title={'$' + s.cost}>{dollars(s.cost)}</span> },
                  { head: 'Unpriced', number: true, cell: (s) => count(s.unpriced) },
                ]} />
              )}
            </Show>
            {!all && table.length > most && <p className="more"><Button onClick={() => setAll(true)}>Show all {count(table.length)} sums</Button></p>}
          </Card>
        </>
      )}
    </>
  );
}

// download writes the sums as CSV.
function download(rows: Sum[], by: Dimension[], from: string, to: string) {
  const units = unitsIn(rows.map((s) => s.tokens)).map((u) => u.unit);
  const named = by.flatMap((d) => (d === 'key' || d === 'org' || d === 'team' ? [d, `${d}_name`] as const : [d]));
  const head = [...named, 'requests', 'errors', 'refused', 'input', 'cache_read', 'cache_write', 'output', 'reasoning', 'cost', 'unpriced', 'estimated', ...units];
  const lines = rows.map((s) => [...named.map((d) => s[d] ?? ''), s.requests, s.errors, s.refused, s.tokens.input, s.tokens.cache_read, s.tokens.cache_write, s.tokens.output, s.tokens.reasoning, s.cost, s.unpriced, s.estimated, ...units.map((u) => amountOf(s.tokens, u))]);
  const url = URL.createObjectURL(new Blob([[head, ...lines].map((l) => l.map(csvCell).join(',')).join('\r\n') + '\r\n'], { type: 'text/csv' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `usage-${from.slice(0, 10)}-${to.slice(0, 10)}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// csvCell quotes a value. A quote before it keeps spreadsheets from running a name as a formula, also behind what
// some of them take for the end of a cell.
export function csvCell(value: string | number): string {
  if (typeof value === 'number') return String(value);
  const text = value.replace(/^[\t\r\n]/, "'$&").replace(/(^'?|[;\t\r\n])([ \t\r\n"]*)([=+\-@＝＋－＠])/g, "$1$2'$3");
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}
