import { useState } from 'react';
import { send, type Schemas } from '../api/client';
import { useChange, useGet, usePages } from '../api/hooks';
import { Link } from '../router';
import { useCan } from '../session';
import { Badge, Button, Card, Confirm, Empty, More, PageHead, Show, Text, useSeen } from '../ui/parts';
import { BudgetForm, EditForm, LimitFields, limitChange, limitTexts, Used } from './limits';

type Tenant = Schemas['TenantView']; // an organisation, or a team of one
type Body = Schemas['TenantBody'];
type Change = Schemas['TenantChange'];
type Budget = Schemas['BudgetBody'];

export function TeamsPage() {
  const can = useCan();
  const [creating, setCreating] = useState(false);
  const list = usePages('/api/v1/orgs', { query: { limit: 50 } });
  const orgs = list.pages.flatMap((p) => p.orgs);
  return (
    <>
      <PageHead title="Teams and budgets">{can('create-org') && <Button kind="primary" onClick={() => setCreating(true)}>Create an organisation</Button>}</PageHead>
      <Show query={list} what="organisations">
        {() => orgs.length === 0
          ? <Empty title="There are no organisations"><p>{can('create-org') ? 'Create one: every client’s key belongs to one.' : 'Ask an operator with the role owner or admin to create one.'}</p></Empty>
          : <>{orgs.map((o) => <OrgCard key={o.id} org={o} />)}<More query={list} /></>}
      </Show>
      {creating && <Create title="Create an organisation" run={(body) => send('post', '/api/v1/orgs', { body })} close={() => setCreating(false)} />}
    </>
  );
}

function OrgCard({ org }: { org: Tenant }) {
  const can = useCan();
  const [creating, setCreating] = useState(false);
  const [ref, seen] = useSeen<HTMLDivElement>();
  const use = useGet('/api/v1/orgs/{org}/limits', { path: { org: org.id } }, { every: 15_000, enabled: seen });
  const teams = usePages('/api/v1/orgs/{org}/teams', { path: { org: org.id }, query: { limit: 100 } }, { enabled: seen });
  const all = teams.pages.flatMap((p) => p.teams);
  return (
    <Card wide title={'Organisation ' + org.id} calls={[use.call, teams.call]} actions={
      <>
        {can('create-team') && <Button onClick={() => setCreating(true)}>Create a team</Button>}
        <TenantActions tenant={org} what={'organisation ' + org.id}
          change={can('update-org') ? (body) => send('patch', '/api/v1/orgs/{org}', { path: { org: org.id }, body }) : undefined}
          budget={can('set-org-budget') ? (body) => send('put', '/api/v1/orgs/{org}/budget', { path: { org: org.id }, body }) : undefined} />
      </>
    }>
      <p className="tenant">{org.name !== org.id && org.name} {org.blocked && <Badge>blocked</Badge>} <Link to={'/console/keys?org=' + org.id}>Keys</Link> <Link to={'/console/exchanges?org=' + org.id}>Exchanges</Link></p>
      <div ref={ref} className={seen ? undefined : 'unseen'}>
        {seen && <Show query={use} what="its use">{(u) => <Used use={u} of={{ org: org.id }} />}</Show>}
      </div>
      <h3>Teams</h3>
      {seen && (
        <Show query={teams} what="teams">
          {() => all.length === 0
            ? <Empty title="It has no teams"><p>A team shares limits and a budget among its keys.</p></Empty>
            : <><ul className="teams">{all.map((t) => <TeamItem key={t.id} org={org.id} team={t} />)}</ul><More query={teams} /></>}
        </Show>
      )}
      {creating && <Create title={'Create a team of ' + org.id} run={(body) => send('post', '/api/v1/orgs/{org}/teams', { path: { org: org.id }, body })} close={() => setCreating(false)} />}
    </Card>
  );
}

function TeamItem({ org, team }: { org: string; team: Tenant }) {
  const can = useCan();
  const at = { org, team: team.id };
  const [ref, seen] = useSeen<HTMLLIElement>();
  const use = useGet('/api/v1/orgs/{org}/teams/{team}/limits', { path: at }, { every: 15_000, enabled: seen });
  return (
    <li ref={ref} className={seen ? undefined : 'unseen'}>
      <div className="team-head">
        <h4>{team.id} {team.name && team.name !== team.id && <span className="hint">{team.name}</span>} {team.blocked && <Badge>blocked</Badge>}</h4>
        <div className="actions">
          <TenantActions tenant={team} what={'team ' + team.id}
            change={can('update-team') ? (body) => send('patch', '/api/v1/orgs/{org}/teams/{team}', { path: at, body }) : undefined}
            budget={can('set-team-budget') ? (body) => send('put', '/api/v1/orgs/{org}/teams/{team}/budget', { path: at, body }) : undefined} />
        </div>
      </div>
      {seen && <Show query={use} what="its use">{(u) => <Used use={u} of={at} />}</Show>}
    </li>
  );
}

type Actions = { tenant: Tenant; what: string; change?: (body: Change) => Promise<unknown>; budget?: (body: Budget) => Promise<unknown> };

// TenantActions changes the limits or the budget of an organisation or a team, or blocks it.
function TenantActions({ tenant, what, change, budget }: Actions) {
  const [action, setAction] = useState<'' | 'edit' | 'budget' | 'block'>('');
  const close = () => setAction('');
  return (
    <>
      {budget && <Button aria-label={'Set budget of ' + what} onClick={() => setAction('budget')}>Set budget</Button>}
      {change && <Button aria-label={'Change ' + what} onClick={() => setAction('edit')}>Change</Button>}
      {change && <Button aria-label={(tenant.blocked ? 'Unblock ' : 'Block ') + what} onClick={() => setAction('block')}>{tenant.blocked ? 'Unblock' : 'Block'}</Button>}
      {action === 'edit' && change && <Edit tenant={tenant} what={what} run={change} close={close} />}
      {action === 'budget' && budget && <SetBudget tenant={tenant} what={what} run={budget} close={close} />}
      {action === 'block' && change && <Block tenant={tenant} what={what} run={change} close={close} />}
    </>
  );
}

type ActionProps<B> = { tenant: Tenant; what: string; run: (body: B) => Promise<unknown>; close: () => void };

function Edit({ tenant, what, run, close }: ActionProps<Change>) {
  const [name, setName] = useState(tenant.name ?? '');
  const [limits, setLimits] = useState(limitTexts(tenant.limits));
  const save = useChange(run, close);
  return (
    <EditForm title={'Change ' + what} pending={save.isPending} error={save.error} close={close} save={() => save.mutate({ name, limits: limitChange(limits) })}>
      <Text label="Name" value={name} set={setName} maxLength={100} />
      <LimitFields value={limits} set={setLimits} />
    </EditForm>
  );
}

function SetBudget({ tenant, what, run, close }: ActionProps<Budget>) {
  const save = useChange(run, close);
  return <BudgetForm title={'Budget of ' + what} limits={tenant.limits} pending={save.isPending} error={save.error} close={close} save={save.mutate} />;
}

function Block({ tenant, what, run, close }: ActionProps<Change>) {
  const save = useChange(run, close);
  const verb = tenant.blocked ? 'Unblock' : 'Block';
  return (
    <Confirm title={verb + ' ' + what + '?'} action={verb} pending={save.isPending} error={save.error} run={() => save.mutate({ blocked: !tenant.blocked })} close={close}>
      <p>{tenant.blocked ? 'Its keys are accepted again.' : 'Requests with its keys are refused until it is unblocked.'}</p>
    </Confirm>
  );
}

function Create({ title, run, close }: { title: string; run: (body: Body) => Promise<unknown>; close: () => void }) {
  const [id, setID] = useState('');
  const [name, setName] = useState('');
  const [limits, setLimits] = useState(limitTexts());
  const create = useChange(run, close);
  return (
    <EditForm title={title} action="Create" pending={create.isPending} error={create.error} close={close} save={() => create.mutate({ id, name: name || undefined, limits: limitChange(limits) })}>
      <Text label="Id" value={id} set={setID} required pattern="[a-z0-9][a-z0-9._\-]*" maxLength={64} hint="Lower case letters, digits, dots and dashes. It cannot be changed." />
      <Text label="Name" value={name} set={setName} maxLength={100} />
      <LimitFields value={limits} set={setLimits} />
    </EditForm>
  );
}
