package bench
import ("testing";"runtime/pprof";"runtime";"os";"strconv")
func TestZZHold(t *testing.T) {
	if os.Getenv("ZZP")!="" {runtime.MemProfileRate = 512}
	n,_ := strconv.Atoi(os.Getenv("ZZN"))
	r := ours; if os.Getenv("ZZR")=="bare" { r = bare }
	h := startHolding(t, startServer(t), r, n, usual)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("per stream %.0f heap %d stack %d sys %d heapsys %d total %d peak %d", h.perStream, m.HeapAlloc, m.StackInuse/uint64(n), m.Sys>>20, m.HeapSys>>20, m.TotalAlloc/uint64(n), residentPeak()>>20)
	f,_ := os.Create("/tmp/heap.prof"); pprof.Lookup("allocs").WriteTo(f,0); f.Close()
	f,_ = os.Create("/tmp/heap2.prof"); pprof.Lookup("heap").WriteTo(f,0); f.Close()
	h.finish()
}
