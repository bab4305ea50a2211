import type { Schemas } from '../api/client';
import { count, seconds } from './format';
import { Badge, Empty, Table, Time } from './parts';

type Target = Schemas['Target'];

// working has the states of a target that gets requests, with their colours.
const working: Record<string, string> = { ready: 'good', degraded: 'warn', failing: 'warn', saturated: 'warn' };

// isWorking reports whether a target gets requests.
export const isWorking = (state: string) => state in working;

export const stateTone = (state: string) => working[state] ?? 'bad';

// recentOf says how many recent requests succeeded; empty: there were none.
export const recentOf = (t: { recent_requests?: number; recent_succeeded?: number }) => (t.recent_requests ? count(t.recent_succeeded ?? 0) + ' of ' + count(t.recent_requests) + ' in 15 min' : '');

// TargetState shows the state of a target and until when it lasts.
export function TargetState({ target: t }: { target: { state: string; until?: string; recent_requests?: number; recent_succeeded?: number } }) {
  return <><Badge tone={stateTone(t.state)}>{t.state}</Badge>{t.state !== 'ready' && recentOf(t) && <div className="hint">{recentOf(t)}</div>}{t.until && <div className="hint">until <Time at={t.until} /></div>}</>;
}

// TargetTable lists targets with their health and load.
export function TargetTable({ targets }: { targets: Target[] }) {
  if (targets.length === 0) return <Empty title="There are no targets"><p>Add providers and models to the configuration, then reload it.</p></Empty>;
  return (
    <Table label="Targets" id={(t) => t.target} rows={targets} columns={[
      { head: 'Target', main: true, cell: (t) => <>{t.target}<div className="hint">{t.models.join(', ')}</div></> },
      { head: 'State', cell: (t) => <TargetState target={t} /> },
      { head: 'Open', number: true, cell: (t) => <>{count(t.open)}{t.limit > 0 && ' of ' + count(t.limit)}{t.waiting > 0 && <div className="hint">{count(t.waiting)} waiting</div>}</> },
      { head: 'Succeeded', number: true, cell: (t) => count(t.succeeded) },
      { head: 'Failed', number: true, cell: (t) => <>{count(t.failed)}{t.failures_in_a_row > 1 && <div className="hint">{count(t.failures_in_a_row)} in a row</div>}</> },
      { head: 'First token', number: true, cell: (t) => (t.first_token_p50_seconds ? <>{seconds(t.first_token_p50_seconds)}{t.first_token_p95_seconds && <div className="hint">p95 {seconds(t.first_token_p95_seconds)}</div>}</> : '–') },
      { head: 'Last error', cell: (t) => (t.last_error ? <>{t.last_error}<div className="hint"><Time at={t.last_error_at} /></div></> : '–') },
    ]} />
  );
}
