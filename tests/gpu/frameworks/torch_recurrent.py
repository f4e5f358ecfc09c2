# cuDNN's LSTM and GRU, embeddings, packed sequences, CTC loss
import torch
from torch import nn

torch.manual_seed(12)
embed, lstm, gru = nn.Embedding(100, 32).cuda(), nn.LSTM(32, 64, 2, bidirectional=True, batch_first=True).cuda(), nn.GRU(128, 32).cuda()
optimizer = torch.optim.AdamW([*embed.parameters(), *lstm.parameters(), *gru.parameters()], lr=1e-3, fused=True)
tokens, lengths = torch.randint(0, 100, (8, 20), device="cuda"), torch.tensor([20, 18, 15, 15, 9, 7, 3, 1])
for _ in range(4):
    packed = nn.utils.rnn.pack_padded_sequence(embed(tokens), lengths, batch_first=True)
    hidden, _ = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])
    out, _ = gru(hidden)
    loss = nn.functional.ctc_loss(out.log_softmax(2), tokens[:, :1] % 31 + 1, lengths.cuda().clamp(max=out.shape[0]), torch.ones(8, dtype=torch.long, device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(bool(loss.isfinite()), tuple(out.shape))
