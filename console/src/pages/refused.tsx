import type { Schemas } from '../api/client';
import { useGet } from '../api/hooks';
import { Link } from '../router';
import { useCan } from '../session';
import { count } from '../ui/format';
import { Card, Empty, Show, Table, Time } from '../ui/parts';
import { local, type Range } from '../ui/range';

type Refusal = Schemas['RefusalView'];

export const reasons: Record<Refusal['reason'], string> = {
  limit: 'a limit on requests, tokens or open requests',
  budget: 'a budget, or a model without a price',
  access: 'a model or endpoint that the key may not use, or no such model',
  key: 'a wrong secret, or an expired, revoked or blocked key',
  overload: 'the gateway or the target had no room',
  fidelity: 'a field cannot be translated',
  target: 'no target serves it',
};

// rangeQuery is the time as the address of a page has it.
const rangeQuery = (r: Range) => 'range=custom&from=' + local(r.from) + '&to=' + local(r.to);

// Refused counts refused requests by reason: of a key, or of all.
export function Refused({ range, of, title }: { range: Range; of?: string; title: string }) {
  const can = useCan();
  const list = useGet('/api/v1/refusals', { query: { from: range.from, to: range.to, key: of } }, { every: 15_000 });
  const exchanges = (r: Refusal) => '/console/exchanges?outcome=refused&' + rangeQuery(range) + (r.key ? '&key=' + r.key : '');
  const keys = (r: Refusal) => (!r.key ? 'further keys' : can('get-key') ? <Link to={'/console/keys/' + r.key}>{r.key_name ?? r.key}</Link> : r.key_name ?? r.key);
  return (
    <Card title={title} calls={[list.call]} wide>
      <Show query={list} what="refused requests">
        {({ refusals }) => refusals.length === 0 ? <Empty title="No request was refused in this time" /> : (
          <>
            <Table label={title} id={(r) => JSON.stringify([r.key, r.reason, r.org, r.team])} rows={of ? refusals : refusals.slice(0, shown)} columns={[
              { head: 'Reason', main: true, cell: (r) => <><Link to={exchanges(r)}>{r.reason}</Link><div className="hint">{reasons[r.reason]}</div></> },
              ...(of ? [] : [{ head: 'Key', cell: keys }]),
              { head: 'Requests', number: true, cell: (r: Refusal) => count(r.count) },
              { head: 'Last', cell: (r: Refusal) => <Time at={r.last} /> },
            ]} />
            <p className="hint">{!of && refusals.length > shown && <>And {count(refusals.length - shown)} more keys and reasons. </>}Some of these requests are kept, with what the client was told: the first ten a minute of each key and reason, then one a second.</p>
          </>
        )}
      </Show>
    </Card>
  );
}

const shown = 10;
