import { useState, type FormEvent } from 'react';
import type { State } from '../api/client';
import { Failure, Text } from '../ui/parts';

// SignIn asks for a session at the identity provider or for an operator's key.
export function SignIn({ state, why, enter }: { state: State; why: string; enter: (key: string) => Promise<void> }) {
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (!key.trim() || busy) return;
    setBusy(true);
    void enter(key.trim()).finally(() => setBusy(false));
  };
  return (
    <main className="alone">
      <div className="brand big">
        <svg viewBox="0 0 16 16" width="28" height="28" aria-hidden="true"><path d="M1 11C5 2 11 14 15 5" /></svg>
        <h1>Isogloss</h1>
      </div>
      {why && <Failure error={new Error(why)} />}
      {state.sign_in && (
        <>
          <p><a className="button primary block" href="/login">Sign in</a></p>
          <p className="or"><span>or with a key</span></p>
        </>
      )}
      <form onSubmit={submit}>
        <Text label="Operator's key" type="password" value={key} set={setKey} placeholder="gw_admin_…" hint="Begins a session of up to 12 hours in this browser. The key is not kept." required autoFocus={!state.sign_in} />
        <div className="form-actions"><button className="button primary" disabled={busy}>Use this key</button></div>
      </form>
      <details>
        <summary>Where do I get a key?</summary>
        <p>On the machine of the gateway: <code>isogloss keys create --role owner --name me -c isogloss.yaml</code></p>
        <p>The roles auditor and billing are enough to look. <a href="https://github.com/isogloss-gateway/isogloss/blob/main/docs/admin-api.md" rel="noreferrer">Roles</a></p>
      </details>
      <p className="hint">{state.version}</p>
    </main>
  );
}
