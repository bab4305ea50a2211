import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState, type ReactNode } from 'react';
import { ApiError, forgetKey, hasKey, loadState, send, signIn, type State } from './api/client';
import { AuditPage } from './pages/audit';
import { ConfigPage } from './pages/config';
import { ExchangePage, ExchangesPage } from './pages/exchanges';
import { KeyPage, KeysPage } from './pages/keys';
import { ModelPage, ModelsPage } from './pages/models';
import { OverviewPage } from './pages/overview';
import { PlaygroundPage, StorelessPlayground } from './pages/playground';
import { SignIn } from './pages/sign-in';
import { StorelessPage } from './pages/storeless';
import { TeamsPage } from './pages/teams';
import { TranslatePage } from './pages/translate';
import { UsagePage } from './pages/usage';
import { Palette } from './palette';
import { Link, useLocation } from './router';
import { SessionContext, useSession, type OperationName, type Session } from './session';
import { CaptureBanner } from './ui/capture-banner';
import { Button, Empty, Failure, Loading, PageHead, Select } from './ui/parts';
import { chosenTheme, setTheme, themes, useTheme, type Theme } from './ui/theme';

export type PageLink = { to: string; title: string; needs: OperationName };

// pages is the navigation. A page is offered to operators who may use its operation.
export const pages: PageLink[] = [
  { to: '/', title: 'Overview', needs: 'whoami' },
  { to: '/console/exchanges', title: 'Exchanges', needs: 'list-requests' },
  { to: '/console/models', title: 'Models and targets', needs: 'list-models' },
  { to: '/console/translate', title: 'Translate', needs: 'translate' },
  { to: '/console/playground', title: 'Playground', needs: 'run-request' },
  { to: '/console/usage', title: 'Usage', needs: 'get-usage' },
  { to: '/console/keys', title: 'Keys and people', needs: 'list-keys' },
  { to: '/console/teams', title: 'Teams and budgets', needs: 'list-orgs' },
  { to: '/console/config', title: 'Configuration', needs: 'get-config' },
  { to: '/console/audit', title: 'Audit', needs: 'list-audit' },
];

function Page() {
  const { path } = useLocation();
  const { who } = useSession();
  const [, , name = '', id = ''] = path.split('/');
  const page = pages.find((p) => p.to === (name ? '/console/' + name : '/'));
  useEffect(() => {
    document.title = (page?.title ?? 'Not found') + ' · Isogloss';
  }, [page]);
  if (!page) return <><PageHead title="There is no such page" /><p><Link to="/">Go to the overview</Link></p></>;
  if (!who.may.includes(page.needs)) return <><PageHead title={page.title} /><Empty title={'Your role, ' + who.key.role + ', may not see this page'}><p>Sign in with a key of another role.</p></Empty></>;
  switch (name) {
    case 'exchanges': return id ? <ExchangePage id={id} key={id} /> : <ExchangesPage />;
    case 'models': return id ? <ModelPage id={id} key={id} /> : <ModelsPage />;
    case 'translate': return <TranslatePage />;
    case 'playground': return <PlaygroundPage />;
    case 'usage': return <UsagePage />;
    case 'keys': return id ? <KeyPage id={id} key={id} /> : <KeysPage />;
    case 'teams': return <TeamsPage />;
    case 'config': return <ConfigPage />;
    case 'audit': return <AuditPage />;
    default: return <OverviewPage />;
  }
}

export function App() {
  const state = useQuery({ queryKey: ['state'], queryFn: loadState, staleTime: Infinity });
  if (state.error) return <main className="alone"><Failure error={state.error} retry={() => void state.refetch()} /></main>;
  if (!state.data) return <main className="alone"><Loading what="the console" /></main>;
  if (!state.data.store) return <Storeless state={state.data} />;
  return <SignedIn state={state.data} />;
}

// Storeless is the console of a gateway without a store: nobody signs in.
function Storeless({ state }: { state: State }) {
  const { path } = useLocation();
  const nav = [{ ...pages[0]!, title: 'Models' }, ...pages.filter((p) => p.needs === 'translate' || p.needs === 'run-request')];
  const page = nav.find((p) => p.to === path) ?? nav[0]!;
  useEffect(() => {
    document.title = page.title + ' · Isogloss';
  }, [page.title]);
  return <Frame nav={nav} version={state.version}>{page.needs === 'translate' ? <TranslatePage /> : page.needs === 'run-request' ? <StorelessPlayground /> : <StorelessPage />}</Frame>;
}

// SignedIn asks for a key or a session, and then shows the console.
function SignedIn({ state }: { state: State }) {
  const client = useQueryClient();
  const [signedIn, setSignedIn] = useState(state.session || hasKey());
  const [why, setWhy] = useState('');
  const who = useQuery({ queryKey: ['whoami'], queryFn: () => send('get', '/api/v1/whoami', {}), enabled: signedIn, refetchInterval: 10_000 });
  const refused = who.error instanceof ApiError && (who.error.status === 401 || who.error.status === 403);
  useEffect(() => {
    if (!refused) return;
    forgetKey();
    setWhy(who.error?.message ?? '');
    setSignedIn(false);
    client.removeQueries({ queryKey: ['whoami'] });
  }, [refused, who.error, client]);
  const enter = async (key: string) => {
    setWhy('');
    try {
      await signIn(key);
      setSignedIn(true);
    } catch (e) {
      setWhy((e as Error).message);
    }
  };
  if (!signedIn || refused) return <SignIn state={state} why={why} enter={enter} />;
  if (who.error && !who.data) return <main className="alone"><Failure error={who.error} retry={() => void who.refetch()} /></main>;
  if (!who.data) return <main className="alone"><Loading what="your permissions" /></main>;
  const signOut = () => {
    forgetKey();
    setSignedIn(false);
    client.removeQueries({ predicate: (q) => q.queryKey[0] !== 'state' });
  };
  const session: Session = { state, who: who.data, signOut };
  const nav = pages.filter((p) => who.data.may.includes(p.needs));
  return (
    <SessionContext value={session}>
      <Frame nav={nav} version={state.version} who={<Operator session={session} />}><CaptureBanner /><Page /></Frame>
      <Palette nav={nav} />
    </SessionContext>
  );
}

function Operator({ session: { who, signOut } }: { session: Session }) {
  return (
    <div className="operator">
      <span className="operator-name" title={who.key.id}>{who.key.name || who.key.id}</span>
      <span className="hint">{who.key.role}{who.held && ' of ' + who.held}</span>
      {hasKey()
        ? <Button onClick={signOut}>Sign out</Button>
        : <form method="post" action="/logout"><button className="button plain">Sign out</button></form>}
    </div>
  );
}

function ThemeSwitch() {
  useTheme();
  return <Select label="Theme" value={chosenTheme()} set={(v) => setTheme(v as Theme)} choices={[...themes]} />;
}

// Frame is the navigation around a page.
function Frame({ nav, version, who, children }: { nav: PageLink[]; version: string; who?: ReactNode; children: ReactNode }) {
  const { path } = useLocation();
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [path]);
  const current = (to: string) => (to === '/' ? path === '/' : path.startsWith(to));
  return (
    <div className="frame">
      <a className="skip" href="#content">Skip to the content</a>
      <header className={open ? 'side open' : 'side'}>
        <div className="brand">
          <svg viewBox="0 0 16 16" width="20" height="20" aria-hidden="true"><path d="M1 11C5 2 11 14 15 5" /></svg>
          <span>Isogloss</span>
          {(nav.length > 0 || who) && <button type="button" className="menu" aria-expanded={open} aria-controls="nav" onClick={() => setOpen(!open)}>Menu</button>}
        </div>
        <div id="nav" className="side-body">
          {nav.length > 0 && (
            <>
              {who && <button type="button" className="palette-button" onClick={() => window.dispatchEvent(new Event('palette'))}>Go to… <kbd>Ctrl K</kbd></button>}
              <nav aria-label="Pages"><ul>{nav.map((p) => <li key={p.to}><Link to={p.to} aria-current={current(p.to) ? 'page' : undefined}>{p.title}</Link></li>)}</ul></nav>
            </>
          )}
          <div className="side-end">
            {who}
            <ThemeSwitch />
            <p className="hint">{version}{who && <> · <a href="/api/openapi.json">API</a></>}</p>
          </div>
        </div>
      </header>
      <main id="content" tabIndex={-1}>{children}</main>
    </div>
  );
}
