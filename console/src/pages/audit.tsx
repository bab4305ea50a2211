import { useQueryClient } from '@tanstack/react-query';
import { send, type Schemas } from '../api/client';
import { useChange, useGet, useKeyNames, usePages } from '../api/hooks';
import { Link, setParams, useParam } from '../router';
import { useCan, useSession } from '../session';
import { count } from '../ui/format';
import { Badge, Button, Card, Empty, Failure, More, PageHead, Select, Show, Source, Table, Time } from '../ui/parts';
import { Filter } from '../ui/range';

type Entry = Schemas['EntryView'];

// actions are suggestions.
const actions = ['create-person', 'sign-in', 'create-session', 'sign-out', 'capture', 'create-key', 'update-key', 'revoke-key', 'rotate-key', 'set-key-budget', 'create-org', 'update-org', 'set-org-budget', 'create-team', 'update-team', 'set-team-budget', 'reload-config'];

export function AuditPage() {
  const can = useCan();
  const { who } = useSession();
  const client = useQueryClient();
  const [action] = useParam('action');
  const [actor] = useParam('actor');
  const [org] = useParam('org');
  const name = useKeyNames(can('list-keys'));
  const operators = useGet('/api/v1/keys', { query: { limit: 1000 } }, { enabled: can('list-keys') }).data?.keys.filter((k) => k.role) ?? [];
  const orgs = useGet('/api/v1/orgs', { query: { limit: 1000 } }, { enabled: can('list-orgs') }).data?.orgs ?? [];
  const log = usePages('/api/v1/audit', { query: { action: action || undefined, actor: actor || undefined, org: org || undefined, limit: 50 } });
  const verify = useChange(() => send('get', '/api/v1/audit/verify', {}), () => void client.invalidateQueries({ queryKey: ['/api/v1/audit'] }));
  const rows = log.pages.flatMap((p) => p.entries);
  const choose = (n: string) => (v: string) => setParams({ [n]: v });
  return (
    <>
      <PageHead title="Audit">
        {can('verify-audit') && <Button kind="primary" disabled={verify.isPending} onClick={() => verify.mutate(undefined)}>{verify.isPending ? 'Verifying…' : 'Verify the chain'}</Button>}
      </PageHead>
      {verify.error ? <Failure error={verify.error} /> : null}
      {verify.data && (
        <div className={'notice ' + (verify.data.whole ? 'good' : 'bad')} role="status">
          <p>{verify.data.whole
            ? `All ${count(verify.data.entries)} entries are valid: none was changed or removed.`
            : `Entry ${count(verify.data.broken ?? 0)} is invalid or missing. The ${count(verify.data.entries)} entries before it are valid. Compare the store with a backup.`}</p>
          <Source calls={[{ method: 'GET', path: '/api/v1/audit/verify' }]} />
        </div>
      )}
      <div className="filters" role="search" aria-label="Filter the audit log">
        <Filter name="action" label="Operation" list={actions} />
        <Select label="Operator" value={actor} set={choose('actor')} choices={[{ value: '', label: 'all' }, ...operators.map((k) => ({ value: k.id, label: k.name }))]} />
        {!who.held && <Select label="Organisation" value={org} set={choose('org')} choices={[{ value: '', label: 'all' }, ...orgs.map((o) => o.id)]} />}
      </div>
      <Card title="Entries, newest first" calls={[log.call]} wide>
        <Show query={log} what="the audit log">
          {() => rows.length === 0 ? (
            <Empty title={action || actor || org ? 'No entry matches the filters' : 'The log has no entries'}>
              {action || actor || org ? <p><Link to="/console/audit">Remove the filters</Link></p> : <p>Every change by an operator is written here before it takes effect.</p>}
            </Empty>
          ) : (
            <>
              <Table label="Audit log" id={(e) => String(e.n)} rows={rows} columns={[
                { head: 'Time', main: true, cell: (e) => <Time at={e.time} /> },
                { head: 'Operator', cell: (e) => <>{e.actor ? name(e.actor) : 'not known'}<div className="hint">{e.address}</div></> },
                { head: 'Operation', cell: (e) => e.action },
                { head: 'Object', cell: (e) => <ObjectOf entry={e} name={name} /> },
                { head: 'Outcome', cell: (e) => <><Badge>{e.outcome}</Badge>{(e.code || e.detail) && <div className="hint break">{e.code || e.detail}</div>}</> },
                { head: 'Entry', cell: (e) => <Hashes entry={e} /> },
              ]} />
              <More query={log} />
            </>
          )}
        </Show>
      </Card>
    </>
  );
}

function ObjectOf({ entry, name }: { entry: Entry; name: (id: string) => string }) {
  const [kind, id = ''] = entry.object.split(':', 2);
  if (kind === 'key' && id) return <Link to={'/console/keys/' + id}>{name(id)}</Link>;
  return <span className="break">{entry.object}</span>;
}

function Hashes({ entry }: { entry: Entry }) {
  return (
    <details className="hashes">
      <summary>#{entry.n}</summary>
      <dl>
        <dt>Hash</dt><dd><code>{entry.hash}</code></dd>
        {entry.before && <><dt>Object before</dt><dd><code>{entry.before}</code></dd></>}
        {entry.after && <><dt>Object after</dt><dd><code>{entry.after}</code></dd></>}
      </dl>
    </details>
  );
}
