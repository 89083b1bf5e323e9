package suite

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// processOf gives the parent and the name of a process; ok is false where there
// is none, or the system does not tell.
func processOf(pid int) (parent int, name string, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", false
	}
	// pid (name) state parent ...; a name may hold spaces and brackets.
	open, shut := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || shut < open {
		return 0, "", false
	}
	fields := strings.Fields(string(stat[shut+1:]))
	if len(fields) < 2 {
		return 0, "", false
	}
	if _, err := fmt.Sscan(fields[1], &parent); err != nil {
		return 0, "", false
	}
	return parent, string(stat[open+1 : shut]), true
}
