package kernel

import (
	"errors"
	"path/filepath"
	"strings"
)

// errPrivateMounts says that nobody else would see a lab.
var errPrivateMounts = errors.New("this process has mounts of its own (as under unshare -m, ip netns exec, or a service with private mounts), " +
	"and names of namespaces are mounts: no other program would find the lab's; " +
	"use the host's mounts, as in `nsenter --mount=/proc/1/ns/mnt netkvlab up SCENARIO`")

// mountPoint is what a line of mountinfo (proc(5)) says of a mount.
type mountPoint struct {
	id     string // names the mount for good, also across mount namespaces
	path   string
	shared string // the peer group that sees what is mounted in it; empty: nobody does
}

// mountPoints reads the text of a mountinfo file.
func mountPoints(info string) (all []mountPoint) {
	for line := range strings.Lines(info) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		m := mountPoint{id: f[0], path: f[4]}
		for _, optional := range f[6:] {
			if optional == "-" {
				break
			}
			if group, ok := strings.CutPrefix(optional, "shared:"); ok {
				m.shared = group
			}
		}
		all = append(all, m)
	}
	return all
}

// mountOf is the mount that a folder lies in: of several at one path the last.
func mountOf(all []mountPoint, folder string) (found mountPoint, ok bool) {
	for _, m := range all {
		inside := m.path == folder || m.path == "/" || strings.HasPrefix(folder, m.path+"/")
		if inside && len(m.path) >= len(found.path) {
			found, ok = m, true
		}
	}
	return found, ok
}

// visible says whether what one process mounts in NetnsDir is seen by another, by their
// mountinfo: they have the same mount there, or two of one peer group.
func visible(own, other string) bool {
	mine, ok := mountOf(mountPoints(own), filepath.Clean(NetnsDir))
	if !ok {
		return true // a root folder that is no mount: nobody can tell
	}
	for _, m := range mountPoints(other) {
		if m.id == mine.id || m.shared != "" && m.shared == mine.shared {
			return true
		}
	}
	return false
}
