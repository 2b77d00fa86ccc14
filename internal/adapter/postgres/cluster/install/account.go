package install

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/runlot/runlot/internal/core/fault"
)

// Account is the user under whom the server runs: the process's own, or an unprivileged one when that is root, because
// PostgreSQL refuses to run as root.
type Account struct {
	Name     string
	UID, GID int
	// other says that it is not the user of this process.
	other bool
}

// accountNames are the candidates as root, best first: one made for the product, the one that Debian's packages make,
// and the one that nearly every system and container image has. initdb works only for a user with an entry in passwd.
var accountNames = []string{"runlot", "postgres", "nobody"}

// FindAccount chooses the user of the server. A data folder stays with the user that it belongs to; it need
// not exist. What an operator has to mend is a fault of kind Environment.
func FindAccount(data string) (Account, error) {
	uid := os.Geteuid()
	owner, exists := ownerOf(data)
	if uid != 0 {
		if exists && owner.UID != uid {
			return Account{}, fault.New(fault.Environment, "postgres_owner", "the data folder %s belongs to user %s and not to user %s", data, owner.Name, userName(uid)).
				WithHint("start as the same user as before, or give the state folder to this user (chown -R)")
		}
		return Account{Name: userName(uid), UID: uid, GID: os.Getegid()}, nil
	}
	if exists && owner.UID != 0 {
		owner.other = true
		return owner, nil
	}
	for _, name := range accountNames {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil && uid != 0 {
			return Account{Name: name, UID: uid, GID: gid, other: true}, nil
		}
	}
	return Account{}, fault.New(fault.Environment, "postgres_user", "PostgreSQL does not run as root, and this system has none of the users runlot, postgres and nobody").
		WithHint("make one (useradd --system runlot), or start as an ordinary user")
}

// userName returns the name of a user, or its number where it has none.
func userName(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

func ownerOf(path string) (Account, bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return Account{}, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Account{}, false
	}
	return Account{Name: userName(int(stat.Uid)), UID: int(stat.Uid), GID: int(stat.Gid)}, true
}

// ownedBy reports whether path is a real folder of this user that no other can write to.
func ownedBy(path string, uid int) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	owner, ok := ownerOf(path)
	return ok && owner.UID == uid
}

// Trusts reports whether dir is a real folder that only the account or this process's own user can write to.
func (a Account) Trusts(dir string) bool {
	return ownedBy(dir, os.Geteuid()) || ownedBy(dir, a.UID)
}

// Reaches reports whether the account can enter dir and every folder above it, by their mode bits. It may say no where
// an access control list would allow it; what follows from no always works.
func (a Account) Reaches(dir string) bool {
	if !a.other {
		return true
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for ; ; dir = filepath.Dir(dir) {
		if !a.enters(dir) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func (a Account) enters(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	owner, ok := ownerOf(dir)
	if !ok {
		return false
	}
	mode := info.Mode().Perm()
	switch {
	case owner.UID == a.UID:
		return mode&0o100 != 0
	case owner.GID == a.GID:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// Give makes the account the owner of one file or folder.
func (a Account) Give(path string) error {
	if !a.other {
		return nil
	}
	return os.Lchown(path, a.UID, a.GID)
}

// GiveTree makes the account the owner of a folder that root alone could write to so far, with all that is in it. The
// folder itself comes last: before that, nobody else can put a link into it.
func (a Account) GiveTree(dir string) error {
	owner, ok := ownerOf(dir)
	if !a.other || !ok || owner.UID == a.UID {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return a.Give(path)
	})
	if err != nil {
		return err
	}
	return a.Give(dir)
}

// attributes start a program in a session of its own, so that a Ctrl-C at the terminal is this process's to handle.
func (a Account) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true}
	if a.other {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}
	}
	return attributes
}
