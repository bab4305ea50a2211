package handover

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifyReady tells the service manager that this process serves and is the main process
// of the service.
func notifyReady(logger *slog.Logger) {
	notify(logger, fmt.Sprintf("%s\nMAINPID=%d\n", daemon.SdNotifyReady, os.Getpid()))
}

// notifyRestartFailed ends the reload. It does not claim to be the main process: the
// request may have failed because another process has just taken over.
func notifyRestartFailed(logger *slog.Logger) { notify(logger, daemon.SdNotifyReady+"\n") }

// notifyReloading tells the service manager that a new process starts. notifyReady of
// that process or notifyRestartFailed of this one ends the reload.
func notifyReloading(logger *slog.Logger) {
	notify(logger, daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec())
}

// notifyStopping tells the service manager that the service drains and exits. A replaced
// process does not: the service continues without it.
func (p *Process) notifyStopping(logger *slog.Logger) {
	select {
	case <-p.replaced:
	default:
		notify(logger, daemon.SdNotifyStopping+"\n")
	}
}

// notify sends a message to the socket that systemd names in NOTIFY_SOCKET. Without that
// variable it does nothing. An error does not stop the gateway.
func notify(logger *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logger.Warn("the service manager cannot be notified", "error", err.Error(), "hint", "NOTIFY_SOCKET names the socket")
	}
}
