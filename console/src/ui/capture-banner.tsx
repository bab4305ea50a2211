import { useSession } from '../session';
import { Time } from './parts';

// CaptureBanner says on every page that somebody reads the text of exchanges at present.
export function CaptureBanner() {
  const { who } = useSession();
  if (!who.captures?.length) return null;
  return (
    <div className="notice bad" role="status">
      {who.captures.map((c, i) => (
        <p key={i}>
          <strong>A capture is attached</strong> to this node since <Time at={c.since} />, by the system's user {c.user}: <code>isogloss capture</code> gets the text of{' '}
          {who.held ? 'exchanges' : c.request ? <>the exchange <code>{c.request}</code></> : c.model || c.key ? <>exchanges{c.model && <> of the model <code>{c.model}</code></>}{c.key && <> of the key <code>{c.key}</code></>}</> : 'all exchanges'}.
          The console does not show it.
        </p>
      ))}
    </div>
  );
}
