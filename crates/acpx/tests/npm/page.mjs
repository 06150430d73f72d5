// A client as a web page is one: the WebSocket of the platform, which sends no headers, only subprotocols.
// node page.mjs URL TOKEN prints the selected subprotocol and the answer to `initialize`, or that it was kept out.
const [url, token] = process.argv.slice(2);
const socket = new WebSocket(url, ["acp.v1", `bearer.${token}`]);
const print = (shown) => console.log(JSON.stringify({ protocol: socket.protocol, ...shown }));
socket.onopen = () =>
  socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } }));
socket.onmessage = ({ data }) => {
  print({ version: JSON.parse(data).result.protocolVersion });
  socket.close();
};
socket.onerror = () => print({ error: true });
