// Package gatecase is a suite that goes wrong in the ways that GATE_CASE names,
// for the tests of scripts/gate.
package gatecase

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

func TestCapacity(t *testing.T) {
	t.Run("cell", func(t *testing.T) {
		t.Run("service", func(t *testing.T) { goWrong(t, os.Getenv("GATE_CASE")) })
		t.Run("leak", func(*testing.T) {})
	})
}

func goWrong(t *testing.T, how string) {
	switch how {
	case "fail_behind_unfinished_line":
		fmt.Print("text without an end")
		t.Error("failed")
	case "pass_behind_unfinished_line":
		fmt.Print("text without an end")
	case "panic":
		panic("broken")
	case "panic_elsewhere":
		done := make(chan struct{})
		go func() { defer close(done); panic("broken") }()
		<-done
	case "exit_0":
		os.Exit(0)
	case "exit_1_behind_unfinished_line":
		fmt.Print("text without an end")
		os.Exit(1)
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	default:
		t.Fatalf("GATE_CASE is %q", how)
	}
}
