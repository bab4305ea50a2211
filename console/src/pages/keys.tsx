import { useMemo, useState } from 'react';
import { send, type Schemas } from '../api/client';
import { useChange, useGet, usePages } from '../api/hooks';
import { Link, setParams, useParam } from '../router';
import { useCan, useSession } from '../session';
import { buckets, Chart, seriesOf } from '../ui/chart';
import { ago, count, dollars, money, nanos, tenant, tenantIDs, toDollars } from '../ui/format';
import { Badge, Button, Card, Confirm, Copy, Dialog, Empty, Facts, More, PageHead, Select, Show, Table, Text, Time, windowChoices, windowText } from '../ui/parts';
import { useRange } from '../ui/range';
import { ModelsField, splitNames } from '../ui/models';
import { BudgetForm, EditForm, LimitFields, limitChange, limitTexts, Used } from './limits';
import { Refused } from './refused';

type Key = Schemas['KeyView'];
type Made = Schemas['KeyMade'];
type Body = Schemas['KeyBody'];

const roles = ['owner', 'admin', 'billing', 'auditor', 'key-manager'] as const;

const useOrgs = () => useGet('/api/v1/orgs', { query: { limit: 1000 } }).data?.orgs ?? [];
const useTeams = (org: string) => useGet('/api/v1/orgs/{org}/teams', { path: { org }, query: { limit: 1000 } }, { enabled: org !== '' }).data?.teams ?? [];

export function KeysPage() {
  const can = useCan();
  const { who } = useSession();
  const [org] = useParam('org');
  const [team] = useParam('team');
  const [state] = useParam('state', 'active');
  const [text, setText] = useState('');
  const [creating, setCreating] = useParam('new');
  const orgs = useOrgs();
  const teams = useTeams(org);
  const spent = can('get-usage') ? '30d' as const : undefined;
  const list = usePages('/api/v1/keys', { query: { org: org || undefined, team: team || undefined, limit: 200, spent } });
  const all = list.pages.flatMap((p) => p.keys);
  const wanted = text.trim().toLowerCase();
  const rows = all.filter((k) => (state === 'all' || k.state === state) && (k.name.toLowerCase().includes(wanted) || k.id.toLowerCase().includes(wanted)));
  return (
    <>
      <PageHead title="Keys and people">{can('create-key') && <Button kind="primary" onClick={() => setCreating('1')}>Create a key</Button>}</PageHead>
      <div className="filters" role="search" aria-label="Filter keys">
        <Text label="Name or id" value={text} set={setText} placeholder="any" />
        {!who.held && <Select label="Organisation" value={org} set={(v) => setParams({ org: v, team: '' })} choices={[{ value: '', label: 'all' }, ...orgs.map(named)]} />}
        {teams.length > 0 && <Select label="Team" value={team} set={(v) => setParams({ team: v })} choices={[{ value: '', label: 'all' }, ...teams.map(named)]} />}
        <Select label="State" value={state} set={(v) => setParams({ state: v === 'active' ? '' : v })} choices={['active', 'blocked', 'expired', 'revoked', 'all']} />
      </div>
      <Card title="Keys and people" calls={[list.call]} wide>
        <Show query={list} what="keys">
          {() => rows.length === 0 ? (
            <Empty title={all.length === 0 ? 'There are no keys' : 'No key matches the filters'}>
              <p>{can('create-key') ? 'Create one for each program or person that sends requests.' : 'Ask an operator with the role key-manager, admin or owner for one.'}</p>
            </Empty>
          ) : (
            <>
              <Table label="Keys" id={(k) => k.id} rows={rows} columns={[
                { head: 'Name', main: true, cell: (k) => <><Link to={'/console/keys/' + k.id}>{k.name}</Link><div className="hint id">{k.id}</div></> },
                { head: 'State', cell: (k) => <Badge>{k.state}</Badge> },
                { head: 'For', cell: (k) => (k.role ? 'operator: ' + k.role : <span title={tenantIDs(k)}>{(isPerson(k) ? 'person: ' : '') + tenant(k)}</span>) },
                { head: 'Models', cell: (k) => (k.role ? '–' : names(k.models, 'none')) },
                { head: 'Budget', cell: (k) => budgetText(k) },
                ...(spent ? [
                  { head: 'Spent in 30 days', number: true, cell: (k: Key) => (k.role ? '–' : <span title={'$' + k.spent}>{dollars(k.spent)}</span>) },
                  { head: 'Last used', cell: (k: Key) => (k.role ? '–' : <LastUse at={k.last_used} />) },
                ] : []),
                { head: 'Expires', cell: (k) => (k.expires ? <Time at={k.expires} /> : 'never') },
              ]} />
              <More query={list} />
            </>
          )}
        </Show>
      </Card>
      {creating && can('create-key') && <CreateKey close={() => setCreating('')} />}
    </>
  );
}

// named is an organisation or a team as a choice.
const named = (t: Schemas['TenantView']) => ({ value: t.id, label: t.name && t.name !== t.id ? t.name + ' (' + t.id + ')' : t.id });

// LastUse says when a key was used last. The gateway knows the hour.
function LastUse({ at }: { at: string | undefined }) {
  if (!at) return 'never';
  const age = (Date.now() - Date.parse(at)) / 1000;
  return <time dateTime={at} title={'the hour that began at ' + at.slice(0, 16).replace('T', ' ') + ' UTC'}>{age < 3600 ? 'this hour' : ago(age) + ' ago'}</time>;
}

// isPerson reports whether a key is the account of a person, whom the rules of the configuration admit.
const isPerson = (k: Key) => k.id.startsWith('person_');

const names = (list: string[], empty: string) => (list.length === 0 ? empty : list.length > 3 ? list.slice(0, 3).join(', ') + ' and ' + count(list.length - 3) + ' more' : list.join(', '));

const budgetText = (k: Key) => (nanos(k.limits.budget) === 0n ? 'none' : dollars(k.limits.budget) + ' in ' + windowText(k.limits.window_seconds));

function CreateKey({ close }: { close: () => void }) {
  const { who } = useSession();
  const orgs = useOrgs();
  const [name, setName] = useState('');
  const [kind, setKind] = useState<'' | (typeof roles)[number]>('');
  const [org, setOrg] = useState(who.held ?? '');
  const [team, setTeam] = useState('');
  const [models, setModels] = useState('*');
  const [expires, setExpires] = useState('');
  const [limits, setLimits] = useState(limitTexts());
  const [budget, setBudget] = useState('0');
  const [window, setWindow] = useState('2592000');
  const [made, setMade] = useState<Made>();
  const create = useChange((body: Body) => send('post', '/api/v1/keys', { body }), setMade);
  const unbound = kind === 'owner' || kind === 'admin';
  const chosenOrg = unbound ? '' : org || (kind ? '' : orgs[0]?.id ?? '');
  const teams = useTeams(chosenOrg);
  if (made) return <Secret made={made} close={close} />;
  const save = () => create.mutate({
    name, role: kind || undefined, org: chosenOrg || undefined, team: team || undefined,
    expires: expires ? new Date(expires).toISOString().slice(0, 19) + 'Z' : undefined,
    ...(kind ? {} : { models: splitNames(models), limits: { ...limitChange(limits), budget: budget || '0', window_seconds: Number(window) } }),
  });
  return (
    <EditForm title="Create a key" action="Create" pending={create.isPending} error={create.error} close={close} save={save}>
      <Text label="Name" value={name} set={setName} required maxLength={100} hint="For operators: which program or person has it." />
      {who.key.role === 'owner' && <Select label="For" value={kind} set={(v) => setKind(v as typeof kind)} choices={[{ value: '', label: 'a client, which sends requests to models' }, ...roles.map((r) => ({ value: r, label: 'an operator: ' + r }))]} />}
      {!unbound && !who.held && <Select label="Organisation" value={chosenOrg} set={(v) => { setOrg(v); setTeam(''); }} choices={[...(kind ? [{ value: '', label: 'not bound to one' }] : []), ...orgs.map((o) => o.id)]} />}
      {!kind && teams.length > 0 && <Select label="Team" value={team} set={setTeam} choices={[{ value: '', label: 'none' }, ...teams.map((t) => t.id)]} />}
      {!kind && <ModelsField value={models} set={setModels} hint="Separated by commas; a name that ends in * is a prefix." />}
      <Text label="Expires" type="datetime-local" value={expires} set={setExpires} hint={kind ? 'Empty: in 90 days.' : 'Empty: never.'} />
      {!kind && (
        <>
          <LimitFields value={limits} set={setLimits} />
          <Text label="Budget in dollars" value={budget} set={setBudget} pattern="[0-9]+([.][0-9]{1,9})?" hint="0: no limit." />
          <Select label="In every" value={window} set={setWindow} choices={windowChoices(window)} />
        </>
      )}
    </EditForm>
  );
}

// Secret shows the text of a key, once.
function Secret({ made, close }: { made: Made; close: () => void }) {
  return (
    <Dialog title="Copy the key now" close={close}>
      <p>This is the only time that <strong>{made.key.name}</strong> is shown. The gateway stores a digest, not the key.</p>
      <div className="secret"><code>{made.text}</code></div>
      <div className="form-actions"><Copy text={made.text} label="Copy the key" /><Button kind="primary" onClick={close}>Done</Button></div>
    </Dialog>
  );
}

type Action = '' | 'edit' | 'budget' | 'rotate' | 'revoke';

export function KeyPage({ id }: { id: string }) {
  const can = useCan();
  const { who } = useSession();
  const key = useGet('/api/v1/keys/{key}', { path: { key: id }, query: { spent: can('get-usage') ? '30d' : undefined } });
  const use = useGet('/api/v1/keys/{key}/limits', { path: { key: id } }, { enabled: can('get-key-limits'), every: 10_000 });
  const [action, setAction] = useState<Action>('');
  const close = () => setAction('');
  return (
    <>
      <p className="back"><Link to="/console/keys">← Keys and people</Link></p>
      <Show query={key} what="the key">
        {(k) => {
          const person = isPerson(k);
          const changeable = k.state !== 'revoked' && (!k.role || who.key.role === 'owner');
          return (
            <>
              <PageHead title={k.name}>
                {changeable && !person && can('update-key') && <Button onClick={() => setAction('edit')}>Change</Button>}
                {changeable && !person && !k.role && can('set-key-budget') && <Button onClick={() => setAction('budget')}>Set budget</Button>}
                {changeable && !person && can('rotate-key') && <Button onClick={() => setAction('rotate')}>Rotate</Button>}
                {changeable && can('revoke-key') && k.id !== who.key.id && <Button kind="danger" onClick={() => setAction('revoke')}>Revoke</Button>}
              </PageHead>
              <div className="grid">
                <Card title="Key" calls={[key.call]}>
                  <Facts rows={[
                    ['State', <Badge key="s">{k.state}</Badge>],
                    ['Id', <code key="id" className="break">{k.id}</code>],
                    ['Role', k.role],
                    ['Organisation', k.org && <span key="org" title={tenantIDs(k)}>{tenant(k)}</span>],
                    ['Models', !k.role && names(k.models, 'none: it can send no requests')],
                    ['Endpoints', !k.role && names(k.endpoints, 'all')],
                    ['Networks', names(k.networks, 'all')],
                    ['Criticality', k.criticality],
                    ['Created', <Time key="c" at={k.created} exact />],
                    ['Expires', k.expires ? <Time key="e" at={k.expires} exact /> : 'never'],
                    ['Last used', can('get-usage') && !k.role && <LastUse key="l" at={k.last_used} />],
                    ['Revoked', k.revoked && <Time key="r" at={k.revoked} exact />],
                    ['Secrets', person ? 'none: signs in at the identity provider' : k.secrets.length > 1 ? <span key="x">two: the old one until <Time at={k.secrets.find((s) => s.until)?.until} /></span> : count(k.secrets.length)],
                  ]} />
                </Card>
                {can('get-key-limits') && (
                  <Card title="Use of its limits" calls={[use.call]}>
                    <Show query={use} what="its use">{(u) => <Used use={u} of={{ key: k.id }} />}</Show>
                    {person && <p className="hint">The rules under <code>identity</code> in the configuration set the limits of people.</p>}
                    <p className="hint">Limits of its team and organisation apply as well.</p>
                  </Card>
                )}
              </div>
              {can('get-usage') && !k.role && <KeyUsage k={k} />}
              {can('list-refusals') && !k.role && <KeyRefused k={k} />}
              {can('list-requests') && !k.role && <p><Link to={'/console/exchanges?range=7d&key=' + k.id}>Exchanges of this key</Link></p>}
              {action === 'edit' && <EditKey k={k} close={close} />}
              {action === 'budget' && <KeyBudget k={k} close={close} />}
              {action === 'rotate' && <Rotate k={k} close={close} />}
              {action === 'revoke' && <Revoke k={k} close={close} />}
            </>
          );
        }}
      </Show>
    </>
  );
}

// KeyRefused counts the refused requests of a key in the last 30 days.
function KeyRefused({ k }: { k: Key }) {
  return <Refused range={useRange('30d')} of={k.id} title="Refused requests in the last 30 days" />;
}

// KeyUsage draws the spend of a key in the last 30 days.
function KeyUsage({ k }: { k: Key }) {
  const range = useRange('30d');
  const usage = useGet('/api/v1/usage', { query: { from: range.from, to: range.to, key: k.id, group: ['day', 'model'] } });
  const rows = usage.data?.sums;
  const times = useMemo(() => buckets(range.from, range.to, 'day'), [range.from, range.to]);
  const series = useMemo(() => rows && seriesOf(rows.filter((s) => s.requests > 0), times, (s) => s.model ?? '', (s) => toDollars(nanos(s.cost))), [rows, times]);
  return (
    <Card title="Spend per day (UTC) in the last 30 days" calls={[usage.call]} wide>
      <Show query={usage} what="its usage">
        {() => series && series.length > 0 ? <Chart label="Spend by model" times={times} series={series} format={money} /> : <Empty title="It has sent no requests in the last 30 days" />}
      </Show>
    </Card>
  );
}

function EditKey({ k, close }: { k: Key; close: () => void }) {
  const [name, setName] = useState(k.name);
  const [models, setModels] = useState(k.models.join(', '));
  const [networks, setNetworks] = useState(k.networks.join(', '));
  const [limits, setLimits] = useState(limitTexts(k.limits));
  const change = useChange((body: Schemas['KeyChange']) => send('patch', '/api/v1/keys/{key}', { path: { key: k.id }, body }), close);
  const save = () => change.mutate({ name, networks: splitNames(networks), ...(k.role ? {} : { models: splitNames(models), limits: limitChange(limits) }) });
  return (
    <EditForm title={'Change ' + k.name} pending={change.isPending} error={change.error} close={close} save={save}>
      <Text label="Name" value={name} set={setName} required maxLength={100} />
      {!k.role && <ModelsField value={models} set={setModels} hint="Separated by commas; a name that ends in * is a prefix. Empty: none." />}
      <Text label="Networks" value={networks} set={setNetworks} hint="Such as 10.0.0.0/8. Empty: all." />
      {!k.role && <LimitFields value={limits} set={setLimits} />}
    </EditForm>
  );
}

function KeyBudget({ k, close }: { k: Key; close: () => void }) {
  const change = useChange((body: Schemas['BudgetBody']) => send('put', '/api/v1/keys/{key}/budget', { path: { key: k.id }, body }), close);
  return <BudgetForm title={'Budget of ' + k.name} limits={k.limits} pending={change.isPending} error={change.error} close={close} save={change.mutate} />;
}

const overlaps = [{ value: '0', label: 'ends now' }, { value: '3600', label: 'stays valid for an hour' }, { value: '86400', label: 'stays valid for a day' }, { value: '604800', label: 'stays valid for 7 days' }];

function Rotate({ k, close }: { k: Key; close: () => void }) {
  const [overlap, setOverlap] = useState('86400');
  const [made, setMade] = useState<Made>();
  const rotate = useChange(() => send('post', '/api/v1/keys/{key}/rotate', { path: { key: k.id }, body: { overlap_seconds: Number(overlap) } }), setMade);
  if (made) return <Secret made={made} close={close} />;
  return (
    <EditForm title={'Rotate ' + k.name} action="Rotate" pending={rotate.isPending} error={rotate.error} close={close} save={() => rotate.mutate(undefined)}>
      <p>The key gets a new secret. Its id, limits and usage stay.</p>
      <Select label="The old secret" value={overlap} set={setOverlap} choices={overlaps} />
    </EditForm>
  );
}

function Revoke({ k, close }: { k: Key; close: () => void }) {
  const revoke = useChange(() => send('post', '/api/v1/keys/{key}/revoke', { path: { key: k.id } }), close);
  return (
    <Confirm title={'Revoke ' + k.name + '?'} action="Revoke" pending={revoke.isPending} error={revoke.error} run={() => revoke.mutate(undefined)} close={close}>
      <p>Requests with this key are refused from now on, on every node. This cannot be undone. Its usage stays in the ledger.</p>
    </Confirm>
  );
}
