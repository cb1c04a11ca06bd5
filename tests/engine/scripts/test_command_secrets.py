"""Secrets of two hundred command lines stay out; what a training says stays readable."""

from __future__ import annotations

import shlex

import pytest

from engine.scripts.secrets import redacted, shown_words, split_words, with_secrets

HUSH = "Zq9-hunter2X"

SHAPES = """
curl -uada:{} https://h/x
curl -u ada:{} https://h/x
curl --user ada:{} https://h/x
curl -sSfLu ada:{} https://h/x
curl -H 'Authorization: Bearer {}' https://h/x
curl -H "Authorization: token {}" https://h/x
curl -H 'PRIVATE-TOKEN: {}' https://h/x
curl -H 'X-Vault: {}' https://h/x
curl -HX-Session:{} https://h/x
curl --header 'apikey: {}' https://h/x
curl -b 'session={}' https://h/x
curl --cookie sid={} https://h/x
curl -d 'user=ada&password={}' https://h/x
curl --data '{{"password": "{}"}}' https://h/x
curl -F token={} https://h/x
curl https://ada:{}@h/x
curl -x http://ada:{}@proxy:3128 https://h/x
curl --proxy-user ada:{} https://h/x
curl -U ada:{} https://h/x
curl 'https://h/x?api_key={}'
curl 'https://h/x?X-Amz-Signature={}&a=1'
wget --password={} https://h/x
wget --user ada --password {} https://h/x
wget --http-password={} https://h/x
wget --header='Authorization: Basic {}' https://h/x
http -a ada:{} GET https://h/x
http https://h/x 'Authorization:Bearer {}'
https --auth ada:{} h/x
aria2c --http-passwd={} https://h/x
aria2c --rpc-secret={}
zip -P {} a.zip b
zip -rP {} a.zip b
unzip -P {} a.zip
unzip -P{} a.zip
7z x -p{} a.7z
rar a -hp{} a.rar b
unrar x -p{} a.rar
openssl enc -d -aes-256-cbc -k {} -in a
openssl rsa -passin pass:{} -in k
openssl pkcs12 -passout pass:{} -in k
openssl enc -pass pass:{} -in k
openssl passwd -6 {}
gpg --batch --passphrase {} -d a
gpg --passphrase={} -d a
smbclient //h/s -U ada%{}
smbclient -Uada%{} //h/s
mount -t cifs //h/s /m -o username=ada,password={}
mount.cifs //h/s /m -o user=ada,pass={}
mysql -p{} db
mysql -uroot -p{} db
mysql -u root --password={} db
mysqldump -h h -p{} db
mariadb -p{}
psql postgresql://ada:{}@h/db
psql 'host=h user=ada password={} dbname=d'
PGPASSWORD={} psql -h h
env PGPASSWORD={} psql -h h
mongosh -u ada -p {} db
mongodump --uri mongodb://ada:{}@h/db
redis-cli -a {} get k
redis-cli -h h -a{} get k
redis-cli -u redis://:{}@h:6379
sqlcmd -S h -U sa -P {}
bcp t out f -U sa -P{}
sqlplus ada/{}@db
cqlsh -u ada -p {} h
clickhouse-client --password {} -q 1
influx query --token {} q
influx -username ada -password {}
sshpass -p {} ssh h
sshpass -p{} rsync a h:b
plink -pw {} h
pscp -pw {} a h:b
lftp -u ada,{} ftp://h
ncftpput -u ada -p {} h d f
ldapsearch -D cn=a -w {} -b dc=x
kinit --password={} ada
htpasswd -b f ada {}
htpasswd -nb ada {}
ipmitool -H h -U ada -P {} power on
mosquitto_pub -u ada -P {} -t a -m b
snmpget -v3 -u ada -A {} h x
snmpget -v3 -u ada -X {} h x
snmpwalk -v2c -c {} h x
docker login -u ada -p {}
docker login -u ada --password={} r.io
docker run -e HF_TOKEN={} img
docker run -e PLACE={} img
docker run --env A={} img
docker run --env=A={} img
podman login -u ada -p {} r.io
helm registry login -u ada -p {} r.io
oc login https://h --token={}
kubectl config set-credentials a --token={}
kubectl create secret generic s --from-literal=password={}
kubectl create secret docker-registry s --docker-password={}
aws configure set aws_secret_access_key {}
aws configure set aws_session_token {} --profile p
aws configure set profile.p.aws_secret_access_key {}
AWS_SECRET_ACCESS_KEY={} aws s3 ls
az login --service-principal -u a -p {} --tenant t
az storage blob list --account-key {}
az storage blob list --sas-token '?sv=1&sig={}'
gcloud auth login --access-token={}
doctl auth init -t {}
gh secret set NAME --body {}
gh secret set NAME -b {}
git clone https://ada:{}@h/x.git
git -c http.extraHeader='Authorization: Basic {}' clone https://h/x
git remote set-url origin https://{}-abcdef@h/x
svn co --username ada --password {} https://h/x
twine upload -u ada -p {} d
poetry config pypi-token.pypi {}
poetry config http-basic.r ada {}
npm config set //h/:_authToken {}
npm config set _authToken={}
pip install --index-url https://ada:{}@h/simple x
wandb login {}
wandb login --relogin {}
WANDB_API_KEY={} python train.py
env WANDB_API_KEY={} python train.py
env A={} python train.py
A={} python train.py
A={} B=2 python train.py --lr 1
export A={}; python train.py
export A='{}' && python train.py
huggingface-cli login --token {}
hf auth login --token {}
kaggle config set -n key -v {}
comet login --api-key {}
modal token set --token-id a --token-secret {}
ngrok authtoken {}
ngrok config add-authtoken {}
tailscale up --authkey {}
cloudflared tunnel run --token {}
vault kv put secret/x password={}
vault login {}
vault login -method=userpass username=a password={}
consul kv get -token={} k
heroku config:set A={}
fly secrets set A={}
vercel deploy -t {}
sentry-cli --auth-token {} x
bw unlock {}
bw login ada@h.org {}
mc alias set m https://h K {}
rclone config password r pass {}
rclone obscure {}
rclone copy --s3-secret-access-key {} a b
s3cmd --secret_key={} ls
dvc remote modify r password {}
dvc remote modify --local r secret_access_key {}
ansible-playbook p.yml -e ansible_password={}
ansible-playbook p.yml --extra-vars 'become_pass={}'
keytool -list -storepass {} -keystore k
jarsigner -keypass {} a.jar b
ssh-keygen -t rsa -N {} -f k
ssh-keygen -p -P {} -N new -f k
xfreerdp /u:ada /p:{} /v:h
rdesktop -u ada -p {} h
nmcli dev wifi connect S password {}
wpa_passphrase ssid {}
pdftotext -upw {} a.pdf
qpdf --password={} a b
gs -sPDFPassword={} a
openfortivpn h -u ada -p {}
jupyter lab --NotebookApp.token={}
jupyter lab --ServerApp.password={}
label-studio start --password {}
airflow users create -u ada -p {}
airflow connections add c --conn-uri postgres://ada:{}@h/d
prefect cloud login -k {}
spark-submit --conf spark.hadoop.fs.s3a.secret.key={} a.py
hadoop fs -Dfs.s3a.access.key={} -ls /
kcat -b h -X sasl.password={} -L
echo {} | sudo -S ls
echo {} | docker login -u ada --password-stdin
echo ada:{} | chpasswd
printf '%s' {} | gh auth login --with-token
docker login --password-stdin <<< {}
mpirun -x A={} python train.py
srun --export=ALL,A={} python train.py
python train.py --hub-token {}
python train.py --hub_token={}
python train.py hub.token={}
python train.py +hub='{{token: {}}}'
python train.py --cfg '{{"hub": {{"api_key": "{}"}}}}'
python train.py --wandb-key {}
python -m pkg.train --password {}
torchrun --nproc-per-node 2 train.py --token {}
accelerate launch train.py --hub_token {}
python -c 'import wandb; wandb.login(key="{}")'
python -c 'from huggingface_hub import login; login("{}")'
python train.py --db postgresql://ada:{}@h/db
python train.py --smtp ada:{}@h:25
cd x && curl -u ada:{} https://h/x | tar xz && python train.py
nice -n 5 mysql -p{} db
sudo -u ada mysql -p{} db
timeout 10 redis-cli -a {} ping
xargs -n1 zip -P {} a.zip
nohup sshpass -p {} ssh h &
$(curl -u ada:{} https://h/x)
""".strip().splitlines()
"""As people type them; `{}` is the secret."""

READABLE = """
python train.py --batch-size 32 --lr 0.1 --model resnet50
python train.py -b 32 -m resnet50 -p 8080 -a resnet18
python main.py -a resnet50 -b 256 -j 4 --epochs 90 /data/imagenet
python train.py --run-name exp_2024-01-02T03-04-05_resnet50_AdamW_lr1e-3
python train.py --model vit_base_patch16_224.augreg2_in21k_ft_in1k --amp
python train.py --model meta-llama/Meta-Llama-3.1-8B-Instruct --max_tokens 512
python train.py --revision 3f9c0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b
python train.py --resume runs/2024-01-02_03-04-05/ckpt_e0010_s00020000.pt
python train.py model=resnet50 optimizer.lr=0.1 data.batch_size=64 +trainer.max_epochs=3
python train.py --uuid 123e4567-e89b-12d3-a456-426614174000
python train.py --tokenizer google/byt5-small --pad-token '<pad>' --key-dim 64
python train.py --cfg '{"lr": 0.1, "name": "ResNet50", "layers": [2, 2]}'
torchrun --nproc-per-node 2 --master-port 29501 train.py --seed 1
accelerate launch --num_processes 2 train.py --lr 1e-4
env BATCH_SIZE=32 LR=0.1 OMP_NUM_THREADS=4 python train.py
CUDA_VISIBLE_DEVICES=0,1 python train.py
env DEBUG=true DATA=/data/imagenet python train.py
./train.sh -m resnet50 -b 32 -n Exp7b
bash run.sh -p Fold3 --size 224
nnUNetv2_train 001 3d_fullres 0 -p nnUNetResEncUNetLPlans_80G
yolo detect train data=coco128.yaml model=yolov8n.pt epochs=100 imgsz=640
fairseq-train data -a transformer_iwslt_de_en --lr 5e-4
docker run --gpus all -it -p 8080:80 -v /a:/b nvcr.io/x/pytorch:24.01-py3 python a.py --lr 1
docker login
wandb login --relogin
wandb login
mysql -uroot -p db
ssh -p 22 gpu01
rsync -a data out
rsync -avz -e ssh a h:b
tar -xzf data.tar.gz -C data
mkdir -p out && cp -p a b && python train.py -p Fold3
git log -p file.py
git commit -a -m 'Version2 of it'
sort -u file
srun -N 1 -n 4 --gres=gpu:2 python train.py
mpirun -np 4 -x OMP_NUM_THREADS=4 python train.py
make -j8 train
conda run -n py311 python train.py
uv run --with torch python train.py
numactl -N 0 python train.py
python -m pip install torch==2.1.0
curl -sSL -o data.zip https://h/data.zip
curl -X POST -H 'Content-Type: application/json' https://h/x
wget -P data https://h/x.zip
unzip data.zip -d data
psql -h localhost -p 5432 -U ada -d db
nvidia-smi --query-gpu=index,uuid --format=csv
python train.py --betas 0.9,0.999 --milestones 30 60 90
python train.py --prompt 'A photo of an Astronaut'
python train.py --device cuda:0 --precision bf16-mixed
python train.py --sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
echo start && python train.py
""".strip().splitlines()

RANDOM = """
train.py --config-b64 dG9rZW46IFpxOS1odW50ZXIyWAp1c2VyOiBhZGEK
train.py --blob aHVudGVyMlhZenBxc3R1dndYWVo5MTIzNDU2Nzg5MA==
train.py Kq8Zr2Yw7Tn4Lb1Vx6Mc3Hd9
train.py --wb 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567
train.py --x 9fK2mQ7vR4tY1wZ8bN3cL6hJ5gD0sA
train.py --x sk7d8f9g0h1j2k3l4m5n6b7v8c9x0z1
train.py --opts '{"a": ["Kq8Zr2Yw7Tn4Lb1Vx6Mc3Hd9"]}'
train.py -x Kq8Zr2Yw7Tn4/Lb1Vx6Mc3Hd9+Aa0
""".strip().splitlines()
"""Keys without a name, and base64 of what has one."""

_OPEN_IN_TEXT = 16
"""Shapes of programs that no text is searched for, with a secret that only its place tells."""


def _forms(line: str) -> list[list[str]]:
    """Return a line as the words of a command, and as that of a shell, alone and behind another."""
    plain = [] if set(line) & set("|;&<$(") else [shlex.split(line)]
    around = ("{}", "cd x && {}", "(true; {})", "docker run --rm img true\n{}")
    return [*plain, *(["sh", "-c", each.replace("{}", line)] for each in around)]


def test_secrets_of_real_command_lines_are_found() -> None:
    assert len(SHAPES) > 200
    for line in (shape.format(HUSH) for shape in SHAPES):
        for words in _forms(line):
            stored, values = split_words(words)
            assert HUSH not in " ".join([*stored, *shown_words(words)]), words
            assert [with_secrets(word, values) for word in stored] == words
            assert split_words(stored) == (stored, {}), "what was replaced is no secret any more"


def test_texts_that_mention_a_command_hold_no_secret() -> None:
    lines = [shape.format(HUSH) for shape in SHAPES]
    assert sum(HUSH in redacted(f"It failed: {line}\n") for line in lines) <= _OPEN_IN_TEXT


@pytest.mark.parametrize("line", READABLE)
def test_what_a_training_says_stays_readable(line: str) -> None:
    for words in _forms(line):
        assert shown_words(words) == words
    assert redacted(line) == line


@pytest.mark.parametrize("line", RANDOM)
def test_what_looks_random_is_no_argument_to_show(line: str) -> None:
    *first, last = shlex.split(line)
    stored, values = split_words([*first, last])
    assert stored != (*first, last)
    assert [with_secrets(word, values) for word in stored] == [*first, last]


@pytest.mark.parametrize("value", ["hunter2", "geheim", "Ab9+/xY7==", "0123456789", "aB/K7/bX9"])
def test_a_password_of_any_kind_is_found_where_a_name_or_a_known_option_says_so(value: str) -> None:
    lines = ("mysql -p{}", "zip -P {} a b", "curl -u ada:{} h", "redis-cli -a {}", "x --token {}")
    for line in (*lines, "docker login -p {}", "curl -H X-Key:{}", "env DB_PASS={} x"):
        assert value not in " ".join(shown_words(shlex.split(line.format(value))))
