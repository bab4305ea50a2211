import { useQueries } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { call, sendCall, type Call, type Schemas } from '../api/client';
import { useGet } from '../api/hooks';
import { Link } from '../router';
import { ago, count, dollars, nanos, toDollars } from '../ui/format';
import { Source, Time } from '../ui/parts';
import { isWorking, recentOf } from '../ui/targets';
import { budgetsOf } from './limits';

type Target = Schemas['Target'];
type Node = Schemas['NodeView'];

const lag = 60; // seconds after which a row that is not in the ledger is late

// Warnings says in words what needs somebody's attention, and what to do.
export function Warnings({ targets, nodes, calls }: { targets: Target[]; nodes?: Schemas['NodeList']; calls: Call[] }) {
  const lines = [...ofTargets(targets), ...(nodes ? ofNodes(nodes) : []), ...useBudgets()];
  if (lines.length === 0) return null;
  return (
    <div className="notice warnings">
      <ul aria-label="Warnings">{lines.map((l, i) => <li key={i}>{l}</li>)}</ul>
      <Source calls={calls} />
    </div>
  );
}

type Use = Schemas['UseView'];

const checked = 20; // organisations, and teams
const nearly = 0.8;

// useBudgets returns warnings of budgets that are nearly used up, of the first organisations and teams.
function useBudgets(): ReactNode[] {
  const minute = { refetchInterval: 60_000, staleTime: 30_000 };
  const orgs = useGet('/api/v1/orgs', { query: { limit: checked } }, { every: 60_000 }).data?.orgs ?? [];
  const teams = useQueries({
    queries: orgs.map((o) => {
      const c = call('get', '/api/v1/orgs/{org}/teams', { path: { org: o.id }, query: { limit: checked } });
      return { queryKey: [c.path], queryFn: () => sendCall(c) as Promise<Schemas['TeamList']>, ...minute };
    }),
  }).flatMap((q) => q.data?.teams ?? []);
  const limited = (l: Schemas['Limits']) => nanos(l.budget) > 0n;
  const uses = useQueries({
    queries: [
      ...orgs.filter((o) => limited(o.limits)).map((o) => call('get', '/api/v1/orgs/{org}/limits', { path: { org: o.id } })),
      ...teams.filter((t) => limited(t.limits)).slice(0, checked).map((t) => call('get', '/api/v1/orgs/{org}/teams/{team}/limits', { path: { org: t.org ?? '', team: t.id } })),
    ].map((c) => ({ queryKey: [c.path], queryFn: () => sendCall(c) as Promise<Use>, ...minute })),
  });
  return uses.flatMap((q) => (q.data ? ofBudget(q.data) : []));
}

function ofBudget(use: Use): ReactNode[] {
  const name = use.account.replace(/^org:/, 'organisation ').replace(/^team:/, 'team ');
  return budgetsOf(use).flatMap((b) => {
    const part = toDollars(nanos(b.spent)) / toDollars(nanos(b.budget));
    if (!(part >= nearly)) return [];
    return [<>The budget of <strong>{name}</strong> is {part >= 1 ? 'used up: its requests are refused' : 'nearly used up'}: {dollars(b.spent)} of {dollars(b.budget)}. <Link to="/console/teams">See the forecast</Link>, and raise it if needed.</>];
  });
}

const modelLink = (m: string) => <Link to={'/console/models/' + encodeURIComponent(m)}>{m}</Link>;

function ofTargets(targets: Target[]): ReactNode[] {
  const down = targets.filter((t) => !isWorking(t.state));
  const models = [...new Set(down.flatMap((t) => t.models))].filter((m) => targets.every((t) => !isWorking(t.state) || !t.models.includes(m)));
  return [
    ...models.map((m) => <><strong>{modelLink(m)}</strong> has no target that gets requests: its requests fail. Add a fallback target, or repair one of its targets.</>),
    ...down.map((t) => <><strong>{t.target}</strong> {t.state}{t.until && <> until <Time at={t.until} /></>}{t.last_error && ': ' + t.last_error}.</>),
    ...targets.filter((t) => t.state === 'degraded').map((t) => <><strong>{t.target}</strong> is degraded: {recentOf(t)} succeeded{t.last_error && ', the last error was ' + t.last_error}. It still gets requests.</>),
    ...targets.filter((t) => t.state === 'failing' && t.failures_in_a_row === 0).map((t) => <><strong>{t.target}</strong> has answered no request since it was ejected{t.last_error && ': ' + t.last_error}.</>),
    ...targets.filter((t) => isWorking(t.state) && t.state !== 'degraded' && t.failures_in_a_row > 0)
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
