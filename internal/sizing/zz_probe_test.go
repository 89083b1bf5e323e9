package sizing
import ("testing";"bytes";"encoding/json";"fmt";"net/http";"math";"time";"anvil-capacity/internal/workload")
func count(chat bool, prompt string) int {
 b,_:=json.Marshal(map[string]any{"model":"smollm2-135m-instruct","messages":[]any{map[string]string{"role":"user","content":prompt}}})
 r,err:=http.Post("http://127.0.0.1:41477/v1/chat/completions/input_tokens","application/json",bytes.NewReader(b)); if err!=nil {panic(err)}
 defer r.Body.Close(); var v struct{Input_tokens int}; json.NewDecoder(r.Body).Decode(&v); return v.Input_tokens }
func TestProbe(t *testing.T){
 for _,tok:=range []int{64,100,128,140,160,256,384,512,768,1024,2048,3000,4000} {
  for _, seed := range []int{42, 1000042} {
  p,err:=workload.New(workload.Spec{Requests:40,Parts:[]workload.Part{{Tokens:tok,Weight:1}},Seed:seed,ResponseWords:16,Canaries:true}); if err!=nil{panic(err)}
  var s,ss float64; mn,mx:=1<<30,0; t0:=time.Now()
  for i:=0;i<40;i++{ n:=count(true,string(p.AppendPrompt(nil,i))); s+=float64(n);ss+=float64(n*n); mn=min(mn,n);mx=max(mx,n)}
  m:=s/40; sd:=math.Sqrt(ss/40-m*m)
  fmt.Printf("nominal %d seed %d chars %d mean %.1f sd %.2f (%.2f%%) min %d max %d  (%.2f%%..%.2f%%) chars/tok %.3f  %v/call\n",tok,seed,tok*3,m,sd,100*sd/m,mn,mx,100*(float64(mn)/m-1),100*(float64(mx)/m-1),float64(tok*3)/m, time.Since(t0)/40)
 }}
}
