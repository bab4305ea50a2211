import type { ReactNode } from 'react';
import type { Call, Schemas } from '../api/client';
import { Link } from '../router';
import { ago, count } from '../ui/format';
import { Source, Time } from '../ui/parts';
import { isWorking } from '../ui/targets';

type Target = Schemas['Target'];
type Node = Schemas['NodeView'];

const lag = 60; // seconds after which a row that is not in the ledger is late

// Warnings says in words what needs somebody's attention, and what to do.
export function Warnings({ targets, nodes, calls }: { targets: Target[]; nodes?: Schemas['NodeList']; calls: Call[] }) {
  const lines = [...ofTargets(targets), ...(nodes ? ofNodes(nodes) : [])];
  if (lines.length === 0) return null;
  return (
    <div className="notice warnings">
      <ul aria-label="Warnings">{lines.map((l, i) => <li key={i}>{l}</li>)}</ul>
      <Source calls={calls} />
    </div>
  );
}

const modelLink = (m: string) => <Link to={'/console/models/' + encodeURIComponent(m)}>{m}</Link>;

function ofTargets(targets: Target[]): ReactNode[] {
  const down = targets.filter((t) => !isWorking(t.state));
  const models = [...new Set(down.flatMap((t) => t.models))].filter((m) => targets.every((t) => !isWorking(t.state) || !t.models.includes(m)));
  return [
    ...models.map((m) => <><strong>{modelLink(m)}</strong> has no target that gets requests: its requests fail. Add a fallback target, or repair one of its targets.</>),
    ...down.map((t) => <><strong>{t.target}</strong> {t.state}{t.until && <> until <Time at={t.until} /></>}{t.last_error && ': ' + t.last_error}.</>),
    ...targets.filter((t) => isWorking(t.state) && t.failures_in_a_row > 0)
      .map((t) => <><strong>{t.target}</strong> failed {t.failures_in_a_row === 1 ? 'at its last request' : t.failures_in_a_row + ' times in a row'}{t.last_error && ': ' + t.last_error}.</>),
    ...targets.filter((t) => t.state === 'saturated').map((t) => <><strong>{t.target}</strong> is saturated: its engine reports a queue or a nearly full cache. Add workers, or lower the load.</>),
  ];
}

const configLink = (text: string) => <Link to="/console/config">{text}</Link>;

function ofNodes({ nodes, missing }: Schemas['NodeList']): ReactNode[] {
  const running = nodes.filter((n) => n.state === 'running');
  const many = nodes.length > 1;
  const name = (n: Node) => <strong>{many || !n.this ? n.name : 'This node'}</strong>;
  const versions = [...new Set(running.map((n) => n.version))];
  return [
    ...(missing ? [<><strong>The store does not respond.</strong> Requests of known keys are served, and recorded on disk until it is back. Changes of keys and budgets fail.</>] : []),
    ...running.filter((n) => n.ledger.rows > 0 && n.ledger.oldest_seconds >= lag)
      .map((n) => <>{name(n)} has {count(n.ledger.rows)} requests that are not in the ledger yet, the oldest for {ago(n.ledger.oldest_seconds)}: the numbers below do not have them. See whether the store is slow or down.</>),
    ...running.filter((n) => n.refused).map((n) => <>{name(n)} refused its changed configuration at <Time at={n.refused} /> and keeps the previous one. {n.this ? configLink('See the mistakes') : 'Its log, and the page Configuration there, have the mistakes'}.</>),
    ...running.filter((n) => !n.same_config).map((n) => <>{name(n)} has another configuration than this node. <Link to={'/console/config?node=' + encodeURIComponent(n.id)}>See the differences</Link>.</>),
    ...(versions.length > 1 ? [<>The nodes run different versions: {versions.join(', ')}. {configLink('See which')}, and finish the upgrade.</>] : []),
    ...nodes.filter((n) => n.state === 'silent').map((n) => <>{name(n)} has not reported since <Time at={n.seen} />: it was killed, or cannot reach the store.</>),
    ...running.filter((n) => n.captured).map((n) => <>A capture is attached to {name(n)}: somebody on its machine reads requests and responses. The <Link to="/console/audit?action=capture">audit log</Link> says who.</>),
  ];
}
