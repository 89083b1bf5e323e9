package workload
import ("testing";"os";"fmt";"encoding/json")
func TestZZ(t *testing.T){
 var out []map[string]any
 for _,c:=range []struct{n string; s Spec}{
  {"w16-2048",Spec{Requests:4,Parts:[]Part{{2048,1}},ResponseWords:16,Canaries:true}},
  {"w0-2048",Spec{Requests:4,Parts:[]Part{{2048,1}},Canaries:true}},
  {"w100-2048",Spec{Requests:4,Parts:[]Part{{2048,1}},ResponseWords:100,Canaries:true}},
  {"w4-2048",Spec{Requests:4,Parts:[]Part{{2048,1}},ResponseWords:4,Canaries:true}},
  {"w1-2048",Spec{Requests:4,Parts:[]Part{{2048,1}},ResponseWords:1,Canaries:true}},
  {"w16-512",Spec{Requests:4,Parts:[]Part{{512,1}},ResponseWords:16,Canaries:true}},
  {"w16-160",Spec{Requests:4,Parts:[]Part{{160,1}},ResponseWords:16,Canaries:true}},
  {"w16-64",Spec{Requests:4,Parts:[]Part{{64,1}},ResponseWords:16,Canaries:true}},
  {"w16-32",Spec{Requests:4,Parts:[]Part{{32,1}},ResponseWords:16,Canaries:true}},
  {"off-16",Spec{Requests:2,Parts:[]Part{{2048,1}},ResponseWords:16}},
  {"off-0",Spec{Requests:2,Parts:[]Part{{2048,1}}}},
  {"shared",Spec{Requests:2,Parts:[]Part{{2048,1}},ResponseWords:16,Canaries:true,Shared:true,SharedPrefixTokens:1024}},
 }{ p,err:=New(c.s); if err!=nil {t.Fatal(err)}; fmt.Println(c.n,len(p.full.text),len(p.compact.text)); for i:=range p.Len() { pr:=string(p.AppendPrompt(nil,i)); ins,ok:=ParseInstructions(pr); if !ok {t.Fatal(c.n)}; out=append(out,map[string]any{"n":c.n,"p":pr,"r":string(ins.AppendReply(nil,"x")),"m":ins.Marker})}}
 b,_:=json.Marshal(out); os.WriteFile("/tmp/wl/prompts.json",b,0o644)
}
