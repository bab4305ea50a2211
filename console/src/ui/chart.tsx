import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { byHourOrDay, sameDecimals, tickEvery } from './axis';
import { useTheme } from './theme';

export type Series = { name: string; values: number[] };

// colours is the number of colours in style.css.
const colours = 8;

const total = (s: Series) => s.values.reduce((a, b) => a + b, 0);

// top keeps the largest series and sums up the others.
function top(all: Series[]): Series[] {
  const sorted = all.toSorted((a, b) => total(b) - total(a));
  if (sorted.length <= colours) return sorted;
  const rest = sorted.slice(colours - 1);
  return [...sorted.slice(0, colours - 1), { name: rest.length + ' others', values: rest[0]!.values.map((_, i) => rest.reduce((a, s) => a + s.values[i]!, 0)) }];
}

// Chart draws stacked bars over time, with a legend that has the sums.
export function Chart({ label, times, series, format, height = 180 }: { label: string; times: number[]; series: Series[]; format: (n: number) => string; height?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  const [at, setAt] = useState<number | null>(null);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const plot = new uPlot(options(element, series, times, format, height, setAt), stack(times, series), element);
    const resize = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      plot.destroy();
    };
  }, [times, series, format, height, theme]);
  const value = (s: Series) => format(at === null ? total(s) : s.values[at]!);
  const days = stepOf(times) >= 86400;
  const some = series.some((s) => total(s) > 0); // a name without a value is left out
  const when = at === null ? 'Total' : new Date(times[at]! * 1000).toLocaleString(undefined, { day: 'numeric', month: 'short', ...(days ? { timeZone: 'UTC' } : { hour: '2-digit', minute: '2-digit' }) });
  return (
    <figure className="chart">
      <div ref={box} role="img" aria-label={label + '. ' + series.map((s) => s.name + ': ' + format(total(s))).join(', ')} />
      <figcaption>
        <span className="when">{when}</span>
        <ul>{series.map((s, i) => (total(s) > 0 || !some) && <li key={s.name}><span className={'swatch c' + i} /><span className="name">{s.name}</span> <strong>{value(s)}</strong></li>)}</ul>
      </figcaption>
    </figure>
  );
}

// Line is one line of a chart. It has a gap where a value is null.
export type Line = { name: string; values: (number | null)[]; colour: string; dashed?: boolean };

// Lines draws lines over time. The label says the same in words.
export function Lines({ label, times, lines, format, height = 150, value }: { label: string; times: number[]; lines: Line[]; format: (n: number) => string; height?: number; value?: (l: Line) => string }) {
  const box = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const plot = new uPlot(lineOptions(element, lines, times, format, height), [times, ...lines.map((l) => l.values)], element);
    const resize = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      plot.destroy();
    };
  }, [times, lines, format, height, theme]);
  return (
    <figure className="chart">
      <div ref={box} role="img" aria-label={label} />
      <figcaption><ul>{lines.map((l) => <li key={l.name}><span className={'swatch ' + l.colour + (l.dashed ? ' dashed' : '')} /><span className="name">{l.name}</span> {value && <strong>{value(l)}</strong>}</li>)}</ul></figcaption>
    </figure>
  );
}

function lineOptions(element: HTMLElement, lines: Line[], times: number[], format: (n: number) => string, height: number): uPlot.Options {
  const all = options(element, [], times, format, height, () => {});
  const [x, y] = all.axes!;
  const length = times[times.length - 1]! - times[0]!;
  return {
    ...all,
    axes: byHourOrDay(times) ? all.axes : [{
      ...x,
      splits: (u) => tickEvery(times.length, plotWidth(u), length > 3 * 86400 ? 64 : 104).map((i) => times[i]!),
      values: (_, ticks) => ticks.map((t) => new Date(t * 1000).toLocaleString(undefined, length > 3 * 86400 ? { day: 'numeric', month: 'short' } : { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' })),
    }, y!],
    cursor: { show: false },
    hooks: {},
    series: [{}, ...lines.map((l) => ({ stroke: colourOf(element, '--' + l.colour), width: 2, dash: l.dashed ? [5, 5] : undefined, points: { show: lonely(l.values), size: 5, fill: colourOf(element, '--' + l.colour) } }))],
  };
}

// lonely reports whether a line is drawn as points, because no two of its values are neighbours.
const lonely = (values: (number | null)[]) => !values.some((v, i) => v !== null && values[i + 1] !== null && values[i + 1] !== undefined);

const stepOf = (times: number[]) => (times.length > 1 ? times[1]! - times[0]! : 3600);

// stack returns the heights of the stacked bars. The highest is drawn first, the others over it.
function stack(times: number[], series: Series[]): uPlot.AlignedData {
  const sums: number[][] = [];
  let below = times.map(() => 0);
  for (const s of series) {
    below = below.map((b, i) => b + s.values[i]!);
    sums.push(below);
  }
  return [times, ...sums.toReversed()];
}

function options(element: HTMLElement, series: Series[], times: number[], format: (n: number) => string, height: number, point: (i: number | null) => void): uPlot.Options {
  const style = (name: string) => colourOf(element, name);
  const axis = { stroke: style('--muted'), grid: { stroke: style('--line'), width: 1 }, ticks: { show: false }, font: '12px system-ui' };
  const step = stepOf(times);
  return {
    width: element.clientWidth || 600,
    height,
    padding: [8, 20, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    hooks: { setCursor: [(u) => point(u.cursor.idx ?? null)] },
    scales: {
      x: { time: true, range: () => [times[0]! - step / 2, times[times.length - 1]! + step / 2] },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.05 : 1] },
    },
    axes: [{ ...axis, size: 28, splits: (u) => ticksOf(times, step, plotWidth(u)), values: (_, ticks) => ticks.map((t) => tick(t, step)) }, { ...axis, size: 62, values: (_, ticks) => sameDecimals(ticks.map(format)) }],
    series: [{}, ...series.map((_, i) => ({ fill: style('--c' + (series.length - 1 - i)), width: 0, paths: uPlot.paths.bars!({ size: [0.8, 60] }), points: { show: false } }))],
  };
}

// plotWidth is the width in which a chart draws its lines and bars.
const plotWidth = (u: uPlot) => u.bbox.width / devicePixelRatio;

// ticksOf returns the times that get a name: days, or hours that divide the viewer's day evenly.
function ticksOf(times: number[], step: number, width: number): number[] {
  if (step >= 86400) return tickEvery(times.length, width, 64).map((i) => times[i]!);
  const every = [1, 2, 3, 4, 6, 12, 24].find((n) => times.length / n <= width / 64) ?? 24;
  return times.filter((t) => new Date(t * 1000).getHours() % every === 0);
}

// tick names a time: the day in UTC, or the hour within a day of the viewer.
function tick(t: number, step: number): string {
  const at = new Date(t * 1000);
  if (step >= 86400) return at.toLocaleDateString(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });
  if (at.getHours() === 0) return at.toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
  return at.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
}

// colourOf returns a custom property as a colour that a canvas understands.
function colourOf(element: HTMLElement, name: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  element.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

// buckets returns the times of all hours or days of a range, in seconds.
export function buckets(from: string, to: string, group: 'hour' | 'day'): number[] {
  const step = group === 'hour' ? 3600 : 86400;
  const all: number[] = [];
  for (let t = Math.floor(Date.parse(from) / 1000 / step) * step; t < Date.parse(to) / 1000; t += step) all.push(t);
  return all;
}

// seriesOf returns one series for each name, with a value for each time. The largest come first.
export function seriesOf<T extends { start?: string }>(rows: T[], times: number[], name: (row: T) => string, value: (row: T) => number): Series[] {
  const index = new Map(times.map((t, i) => [t, i]));
  const all = new Map<string, number[]>();
  for (const row of rows) {
    const i = index.get(Date.parse(row.start ?? '') / 1000);
    if (i === undefined) continue;
    const n = name(row) || '(none)';
    let values = all.get(n);
    if (!values) all.set(n, (values = times.map(() => 0)));
    values[i]! += value(row);
  }
  return top([...all].map(([n, values]) => ({ name: n, values })));
}
