package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/edge/certs"
	"github.com/isogloss-gateway/isogloss/internal/edge/local"
)

// checkFile says whether the configuration can be used.
func (in *Installation) checkFile(context.Context) (list []Result) {
	name := cmp.Or(in.File, "no file: the environment")
	var nobody *config.NobodyError
	if errors.As(in.Wrong, &nobody) || in.Wrong == nil && in.File == "" && len(in.Config.Providers) == 0 {
		return one(Warning, "set the key of a provider, start an engine, or write a file with 'isogloss init'", "there is no configuration file, and no key of a provider in the environment: the gateway would wait for an engine")
	}
	if in.Wrong != nil {
		for i, line := range lines(in.Wrong) {
			if i == 20 {
				list = append(list, result(Failure, "'isogloss check' lists all", "there are more mistakes"))
				break
			}
			text, remedy := split(line)
			list = append(list, result(Failure, cmp.Or(remedy, "correct this line of the file"), "%s", text))
		}
		switch {
		case in.Config == nil:
			list = append(list, result(Skipped, "correct the mistakes, and run it again", "what the file configures is not checked"))
		case in.Partial:
			list = append(list, result(Skipped, "correct the mistakes, and run it again", "of the file only the client port, the data folder and the store are checked"))
		}
		return list
	}
	text := fmt.Sprintf("%s: %s, %s", name, count(len(in.Config.Models), "model"), count(len(in.Config.Providers), "provider"))
	for _, prices := range in.Config.Prices.Old(in.Now()) {
		list = append(list, result(Warning, "look them up again and write the day as as_of", "prices.lists: %s may be outdated", prices))
	}
	return append(one(OK, "", "%s", text), list...)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// checkPorts says who holds the gateway's ports. It opens a port for a moment to see whether that is possible.
func (in *Installation) checkPorts(ctx context.Context) (list []Result) {
	if in.Config == nil {
		return nil
	}
	ports := []struct{ setting, address string }{{"listen", in.Config.Listen}, {"admin.listen", in.Config.Admin.Listen}, {"metrics.listen", in.Config.Metrics.Listen}}
	for _, p := range ports {
		if p.address != "" {
			r := in.checkPort(ctx, p.setting, p.address)
			r.Of = p.setting
			list = append(list, r)
		}
	}
	return list
}

func (in *Installation) checkPort(ctx context.Context, setting, address string) Result {
	held, known := holderOf(address)
	switch {
	case known && held.pid != 0 && held.pid == pidOf(in.Gateway):
		return result(OK, "", "%s: the gateway has it (process %d)", address, held.pid)
	case known && held.pid != 0:
		return result(Failure, fmt.Sprintf("stop process %d, or write another address as %s", held.pid, setting), "%s is held by %s (process %d, user %s)", address, held.name, held.pid, userName(held.uid))
	case known:
		if in.Gateway != nil && in.Gateway.Address == address {
			return result(OK, "", "%s: the gateway says that it has it (process %d)", address, in.Gateway.PID)
		}
		return result(Failure, "run this as root to see which process it is; stop it, or write another address as "+setting, "%s is held by a process of user %s", address, userName(held.uid))
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	var addr *net.AddrError
	switch {
	case err == nil:
		_ = l.Close() // nothing has connected
		return result(OK, "", "%s is free", address)
	case errors.Is(err, syscall.EADDRINUSE):
		return result(Failure, "stop the program that holds it, or write another address as "+setting, "%s is held by another program", address)
	case errors.Is(err, syscall.EACCES):
		return result(Failure, "write a port above 1023 as "+setting+", or give the gateway the capability CAP_NET_BIND_SERVICE", "%s cannot be used by this user: ports below 1024 need a privilege", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.As(err, &addr):
		return result(Failure, "write an address of this machine as "+setting+", or 0.0.0.0", "%s is no address of this machine", address)
	}
	text, remedy := cause(err, setting, "")
	return result(Failure, remedy, "%s: %s", address, text)
}

// holder is a process that listens.
type holder struct {
	pid  int // 0: this user may not see it
	uid  int
	name string
}

// soon is how long before its end a certificate should be renewed.
const soon = 14 * 24 * time.Hour

// checkCertificates says how long the certificates of the ports are valid.
func (in *Installation) checkCertificates(context.Context) (list []Result) {
	if in.Config == nil || in.Partial {
		return nil
	}
	for _, c := range []struct {
		setting string
		files   certs.Files
	}{{"tls", in.Config.TLS}, {"admin.tls", in.Config.Admin.TLS}} {
		if c.files.Cert == "" {
			continue
		}
		r := in.checkCertificate(c.files)
		r.Of = c.setting
		list = append(list, r)
	}
	return list
}

func (in *Installation) checkCertificate(f certs.Files) Result {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return result(Failure, "write the files of a certificate and its key, which the gateway's user may read", "%v", err)
	}
	end, now := pair.Leaf.NotAfter, in.Now()
	const renew = "renew it; the gateway reads the files again when they change"
	switch {
	case now.After(end):
		return result(Failure, renew, "%s has expired on %s", f.Cert, day(end))
	case now.Before(pair.Leaf.NotBefore):
		return result(Failure, "set this machine's clock, or wait", "%s is not valid before %s", f.Cert, day(pair.Leaf.NotBefore))
	case end.Sub(now) < soon:
		return result(Warning, renew, "%s expires on %s, in %d days", f.Cert, day(end), int(end.Sub(now).Hours()/24))
	}
	return result(OK, "", "%s is valid until %s", f.Cert, day(end))
}

// Free space of the data folder.
const (
	leastFree  = 64 << 20
	littleFree = 1 << 30
)

// checkData looks at the data folder, in which the spool and the pepper are.
func (in *Installation) checkData(context.Context) (list []Result) {
	if in.Config == nil {
		return nil
	}
	c := in.Config
	if c.Store.URL == "" && (!c.Discover.On() || c.Discover.Local) {
		return one(OK, "", "no data folder is needed: without a store nothing is written to disk")
	}
	dir, err := filepath.Abs(c.Data)
	if err != nil {
		dir = c.Data
	}
	if in.Marker != nil {
		text, remedy := split(in.Marker.Error())
		list = append(list, result(Failure, remedy, "%s", text))
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return append(list, result(Note, "", "%s does not exist yet; the first start creates it", dir))
	case err != nil:
		return append(list, result(Failure, "run it as the gateway's user, or as root", "%v", err))
	case !info.IsDir():
		return append(list, result(Failure, "write a folder as data", "%s is not a folder", dir))
	}
	list = append(list, in.checkSpace(dir, local.OwnerOf(info)))
	return append(list, in.checkOwner(dir, info)...)
}

// checkSpace looks at the file system of the data folder.
func (in *Installation) checkSpace(dir string, owner int) Result {
	disk, err := diskOf(dir)
	if err != nil {
		return result(Skipped, "", "%s: the free space is not known: %v", dir, err)
	}
	text := fmt.Sprintf("%s: owner %s, %s free of %s on %s", dir, userName(owner), bytesText(disk.free), bytesText(disk.size), disk.kind)
	const room = "free some space, or move data to a larger disk; a full disk refuses keys with a budget"
	switch {
	case disk.readOnly:
		return result(Failure, "mount it for writing, or write another folder as data", "%s: the file system is read-only", dir)
	case disk.free < leastFree:
		return result(Failure, room, "%s: the disk is full", text)
	case disk.size > 0 && disk.nodes > 0 && disk.freeNodes < 100:
		return result(Failure, "delete files that are not needed", "%s: only %d files can be created", text, disk.freeNodes)
	case disk.free < littleFree && disk.free < disk.size/10:
		return result(Warning, room, "%s", text)
	case disk.shared:
		return result(Warning, "write a folder on a disk of this machine as data; SQLite and the spool need its locks", "%s, which is a file system of the network", text)
	case disk.memory:
		return result(Warning, "write a folder on a disk as data", "%s, which a restart of the machine empties", text)
	}
	return result(OK, "", "%s", text)
}

// maxFiles is how many files of the data folder are looked at.
const maxFiles = 10_000

// checkOwner says whether the gateway's user may use the data folder.
func (in *Installation) checkOwner(dir string, info os.FileInfo) (list []Result) {
	uid, owner := in.gatewayUser(), local.OwnerOf(info)
	switch {
	case owner < 0:
		return nil // not known here
	case uid == 0: // root may use every folder; files that it makes there are another matter
		uid = owner
	case uid != owner:
		return one(Failure, fmt.Sprintf("start the gateway as %s, or run 'chown -R %s %s' as root", userName(owner), userName(uid), dir), "%s belongs to user %s, and the gateway's user is %s", dir, userName(owner), userName(uid))
	}
	if info.Mode().Perm()&0o077 != 0 {
		list = append(list, result(Warning, "run 'chmod 700 "+dir+"'", "%s can be read by other users (mode %o): it has the pepper of all keys", dir, info.Mode().Perm()))
	}
	if info.Mode().Perm()&0o300 != 0o300 {
		list = append(list, result(Failure, "run 'chmod 700 "+dir+"'", "%s cannot be written by its owner (mode %o)", dir, info.Mode().Perm()))
	}
	n := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if n++; n > maxFiles {
			return filepath.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // a file may end meanwhile
		}
		if info, err := d.Info(); err == nil && local.OwnerOf(info) != uid {
			list = append(list, result(Failure, fmt.Sprintf("run 'chown -R %s %s' as root", userName(uid), dir), "%s belongs to user %s, and the folder to %s", path, userName(local.OwnerOf(info)), userName(uid)))
			return filepath.SkipAll
		}
		return nil
	})
	return list
}

// gatewayUser returns the user of the running gateway, or of this process.
func (in *Installation) gatewayUser() int {
	if in.Gateway != nil {
		if info, err := os.Stat("/proc/" + strconv.Itoa(in.Gateway.PID)); err == nil {
			return local.OwnerOf(info)
		}
	}
	return os.Geteuid()
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// Descriptors of a process.
const (
	fewFiles  = 256
	someFiles = 4096
)

// checkLimits looks at the limits of the gateway's process, or of this one.
func (in *Installation) checkLimits(context.Context) []Result {
	l, err := limitsOf(pidOf(in.Gateway))
	if err != nil {
		return one(Skipped, "", "the limits of processes are not known here: %v", err)
	}
	whose := "this shell's processes"
	if in.Gateway != nil {
		whose = fmt.Sprintf("the gateway (process %d)", in.Gateway.PID)
	}
	const more = "raise it: LimitNOFILE=65536 in the unit, 'ulimit -n 65536' in the shell, or the limits of the container"
	// A third of the descriptors is for upstreams: see limit.Config.Connections.
	text := fmt.Sprintf("%s may have %d descriptors, enough for about %d connections of clients", whose, l.files, max((l.files-128)*2/3, 0))
	if l.open > 0 {
		text += fmt.Sprintf("; %d are open", l.open)
	}
	if l.memory > 0 {
		text += fmt.Sprintf("; memory limit %s", bytesText(l.memory))
	}
	switch {
	case l.files < fewFiles:
		return one(Failure, more, "%s", text)
	case l.open*10 > l.files*8, l.files < someFiles:
		return one(Warning, more, "%s", text)
	case l.processes > 0 && l.processes < 200:
		return one(Warning, "raise LimitNPROC, TasksMax or the pids limit of the container", "%s; only %d processes and threads are allowed", text, l.processes)
	}
	return one(OK, "", "%s", text)
}

// limits are those of a process. 0: none, or not known.
type limits struct {
	files, open, processes int
	memory                 int64
}

// Differences of clocks. The Date of a provider has whole seconds.
const (
	someSkew = 5 * time.Second
	muchSkew = 30 * time.Second
)

// checkClocks compares this machine's clock with those of the servers that were reached.
func (in *Installation) checkClocks() []Result {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.clocks) == 0 {
		return one(Skipped, "", "no server was reached that says the time")
	}
	var off []string
	worst := in.clocks[0]
	for _, c := range in.clocks {
		if c.ahead.Abs() > worst.ahead.Abs() {
			worst = c
		}
		if c.ahead.Abs() > someSkew {
			off = append(off, c.of)
		}
	}
	if len(off) == 0 {
		return one(OK, "", "at most %s from the clocks of %s", worst.ahead.Abs().Round(time.Millisecond), count(len(in.clocks), "server"))
	}
	where := "behind"
	if worst.ahead < 0 {
		where = "ahead of"
	}
	status := Warning
	if worst.ahead.Abs() > muchSkew {
		status = Failure
	}
	remedy := "set the clock of this machine (timedatectl set-ntp true); budgets, tokens and signatures of clouds depend on it"
	if len(off) < len(in.clocks) {
		remedy = fmt.Sprintf("set the clock of %s: %d other servers agree with this machine", strings.Join(off, " and "), len(in.clocks)-len(off))
	}
	return one(status, remedy, "this machine's clock is %s %s that of %s (differing: %d of %d servers)", worst.ahead.Abs().Round(time.Second), where, worst.of, len(off), len(in.clocks))
}
