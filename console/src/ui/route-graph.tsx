import { useEffect, useState } from 'react';
import type { Schemas } from '../api/client';

type Model = Schemas['ListedModel'];
type Target = Schemas['ListedTarget'];

const drawn = 12; // targets; the table has all of them
const narrowScreen = '(max-width: 800px)';

function useNarrow(): boolean {
  const [narrow, set] = useState(() => matchMedia(narrowScreen).matches);
  useEffect(() => {
    const media = matchMedia(narrowScreen);
    const changed = () => set(media.matches);
    media.addEventListener('change', changed);
    return () => media.removeEventListener('change', changed);
  }, []);
  return narrow;
}

const cut = (text: string, most: number) => (text.length > most ? text.slice(0, most - 1) + '…' : text);

const tone = (state: string) => (state === 'ready' ? 'good' : state === 'degraded' || state === 'failing' || state === 'saturated' ? 'warn' : 'bad');

// share says how much of the requests a target gets by the policy.
function share(m: Model, t: Target, i: number): string {
  if (m.balance === 'order') return i === 0 ? 'first' : 'fallback ' + i;
  const sum = m.targets.reduce((n, other) => n + other.weight, 0);
  return m.balance === 'weight' ? Math.round((t.weight / sum) * 100) + ' %' : 'weight ' + t.weight;
}

const stateText = (t: Target) => t.state + (t.until ? ' until ' + new Date(t.until).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' }) : '') + ', ' + t.open + ' open';

type Box = { x: number; y: number; width: number; height: number };

// RouteGraph draws the way from a model's name by its policy to its targets: from left to right, or from
// top to bottom on a narrow screen. The table of targets says the same.
export function RouteGraph({ model: m }: { model: Model }) {
  const narrow = useNarrow();
  const targets = m.targets.slice(0, drawn);
  const height = 46;
  const step = narrow ? 76 : 64;
  const size = narrow ? { width: 330, height: 122 + targets.length * step } : { width: 960, height: Math.max(1, targets.length) * step };
  const middle = (size.height - height) / 2;
  const name: Box = narrow ? { x: 1, y: 2, width: 328, height } : { x: 1, y: middle, width: 210, height };
  const policy: Box = narrow ? { x: 1, y: 76, width: 328, height } : { x: 270, y: middle, width: 140, height };
  const place = (i: number): Box => (narrow ? { x: 40, y: 150 + i * step, width: 289, height } : { x: 610, y: i * step + (step - height) / 2, width: 349, height });
  const line = (from: Box, to: Box) => {
    const y = to.y + height / 2;
    const start = from.x + from.width;
    const bend = Math.min(start + 110, to.x);
    if (!narrow) return `M${start} ${from.y + height / 2}C${start + 55} ${from.y + height / 2} ${bend - 55} ${y} ${bend} ${y}H${to.x}`;
    return to.x === from.x ? `M20 ${from.y + height}V${to.y}` : `M20 ${from.y + height}V${y}H${to.x}`;
  };
  const summary = m.model + ', policy ' + m.balance + ', to ' + targets.map((t, i) => t.target + ' (' + share(m, t, i) + ', ' + t.state + ')').join(', ');
  return (
    <div className="graph">
      <svg viewBox={`0 0 ${size.width} ${size.height}`} width={size.width} role="img" aria-label={'Route of ' + summary}>
        <path className="edge" d={line(name, policy)} />
        {targets.map((t, i) => <path key={i} className={'edge ' + tone(t.state)} d={line(policy, place(i))} />)}
        <Node box={name} title={m.model} above={cut(m.model, narrow ? 40 : 26)} below="model" />
        <Node box={policy} title={m.balance} above={m.balance} below="policy" />
        {targets.map((t, i) => {
          const box = place(i);
          return (
            <g key={i}>
              <Node box={box} title={t.target + ', ' + stateText(t)} above={cut(t.target, narrow ? 34 : 42)} below={cut(stateText(t), narrow ? 42 : 52)} tone={tone(t.state)} />
              <text className="share" x={narrow ? box.x + 2 : box.x - 8} y={narrow ? box.y - 5 : box.y + height / 2 - 6} textAnchor={narrow ? 'start' : 'end'}>{share(m, t, i)}</text>
            </g>
          );
        })}
      </svg>
      {m.targets.length > drawn && <p className="hint">{m.targets.length - drawn} more targets are in the table.</p>}
    </div>
  );
}

function Node({ box, title, above, below, tone: colour = '' }: { box: Box; title: string; above: string; below: string; tone?: string }) {
  return (
    <g className={'node ' + colour}>
      <title>{title}</title>
      <rect x={box.x} y={box.y} width={box.width} height={box.height} rx="8" />
      <text className="name" x={box.x + 12} y={box.y + 19}>{above}</text>
      <text className="note" x={box.x + 12} y={box.y + 36}>{below}</text>
    </g>
  );
}
